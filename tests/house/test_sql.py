"""SQL has four places: beside its one caller, in schema/, in a migration, and in operate/search.py.

operate/search.py composes statements. The others are files that both people and databases can read as SQL.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.postgres import statement
from tests.house.parsing import parsed

REPOSITORY = Path(__file__).parents[2]

# Modules that may hold SQL, each with its reason. Anything else goes into a .sql file.
COMPOSERS = {
    "orchestrator/operate/search.py",  # puts a statement together from the filters that a person gave
}

# A string is taken for a statement by how it opens. Words that prose opens with as well need more of the
# statement's shape: "Update the schema" and "select a queue" are sentences.
STATEMENT = re.compile(
    r"""\s*(?:
        SELECT\s | INSERT\s+INTO\s | DELETE\s+FROM\s | NOTIFY\s | LISTEN\s | UNLISTEN\s | TRUNCATE\s | GRANT\s
        | REVOKE\s | COPY\s | CALL\s | VACUUM\b | ANALYZE\b | EXPLAIN\s
        | (?i: insert\s+into\s | delete\s+from\s | update\s+\S+\s+set\s
            | select\s+(?: \d | \* | [\w.]+\( | [\w."]+(?:\s*,\s*[\w."]+)*\s+from\s )
            | with\s+(?:recursive\s+)?\w+(?:\s*\([^)]*\))?\s+as\s+(?:not\s+)?(?:materialized\s+)?\(
            | (?:create|alter|drop)\s+(?:or\s+replace\s+)?(?:unique\s+|constraint\s+|materialized\s+)?
              (?:table|index|function|procedure|view|trigger|schema|role|sequence|database|type)\s+\S+
            | set\s+(?:local\s+|session\s+)?[\w.]+\s*(?:=|\bto\s)
            | lock\s+table\s | (?:un)?listen\s+[\w"%{]+\s*;?\s*$ | notify\s+[\w"%{]+\s*;?\s*$
            | do\s+\$\w*\$ )
    )""",
    re.VERBOSE,
)
COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
QUOTED_BODY = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
LOOKED_UP = re.compile(r"\bSQL\['(\w+)'\]")
CREATED = re.compile(
    r"""\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:CONSTRAINT\s+|MATERIALIZED\s+)?(?:FUNCTION|PROCEDURE|VIEW|TRIGGER)\s+
    (?:IF\s+NOT\s+EXISTS\s+)?(?:"?\w+"?\.)?"?(\w+)"?""",
    re.VERBOSE | re.IGNORECASE,
)


def statements_in_python(root: Path) -> list[str]:
    """Name every string in a Python module that opens like an SQL statement."""
    return [
        f"{path.relative_to(root)}:{line}: {text.split()[0]} …"
        for path in sorted((root / "orchestrator").rglob("*.py"))
        if str(path.relative_to(root)) not in COMPOSERS
        for line, text in strings(parsed(path))
        if STATEMENT.match(text)
    ]


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every string that is not a docstring; an f-string as the text before and between its holes."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    pieces = {
        id(piece) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in node.values
    }
    told_elsewhere = docstrings | pieces
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values),
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told_elsewhere
        ):
            yield node.lineno, node.value


def sql_files(root: Path) -> list[Path]:
    """Return every .sql file of the package."""
    return sorted((root / "orchestrator").rglob("*.sql"))


def files_without_one_caller(root: Path) -> list[str]:
    """Name the .sql files, those of schema/ apart, that are not loaded by exactly one module beside them."""
    wrong = []
    folders = {path.parent for path in sql_files(root)}
    for folder in sorted(folders):
        if folder.is_relative_to(root / "orchestrator" / "schema"):
            continue
        names = {module.name: {text for _, text in strings(parsed(module))} for module in folder.glob("*.py")}
        for path in sorted(folder.glob("*.sql")):
            callers = sorted(name for name, texts in names.items() if path.name in texts)
            if len(callers) != 1:
                wrong.append(f"{path.relative_to(root)}: loaded by {callers or 'nobody'}")
    return wrong


def stray_sections(root: Path) -> list[str]:
    """Name the sections that the caller of their file does not name, and those that it looks up in vain.

    load() itself refuses a section that is missing or stands twice, as soon as the module is imported.
    """
    wrong = []
    for path in sql_files(root):
        there = set(statement.sections(str(path), path.name)) - {statement.WHOLE}
        for module in path.parent.glob("*.py"):
            if path.name not in module.read_text():
                continue
            named = {text for _, text in strings(parsed(module))}
            if path.name in named:
                where = path.relative_to(root)
                wrong += [f"{where}: {module.name} does not use {name}" for name in sorted(there - named)]
                text = ast.unparse(parsed(module))
                looked_up = (
                    LOOKED_UP.findall(text)
                    if f"SQL = statement.sections(__file__, '{path.name}')" in text
                    else []
                )
                wrong += [
                    f"{where}: has no {name} for {module.name}" for name in sorted({*looked_up} - there)
                ]
    return wrong


def files_without_contract(root: Path) -> list[str]:
    """Name the .sql files that do not open with a comment: what goes in and out, which locks are taken."""
    return [str(path.relative_to(root)) for path in sql_files(root) if not has_contract(path)]


def has_contract(path: Path) -> bool:
    """Whether a file opens with a comment; if it opens with a section, whether each section does."""
    text = path.read_text().lstrip()
    if not text.startswith("-- name: "):
        return text.startswith(("--", "/*"))
    return all(each.startswith(b"--") for each in statement.sections(str(path), path.name).values())


def misnamed_objects(root: Path) -> list[str]:
    """Name the files of schema/ that do not create exactly what their name promises.

    Overloads share a name, and so may a trigger and its function; they are one object to who looks for it.
    """
    schema = root / "orchestrator" / "schema"
    return [
        f"{path.relative_to(root)}: creates {sorted(created) or 'nothing'}"
        for folder in ("functions", "views", "triggers")
        for path in sorted((schema / folder).rglob("*.sql"))
        if (created := created_names(path.read_text())) != {path.stem}
    ]


def created_names(text: str) -> set[str]:
    """Return the names of what a script creates, without looking into comments and function bodies."""
    return set(CREATED.findall(QUOTED_BODY.sub("", COMMENT.sub("", text))))


def test_no_module_holds_sql() -> None:
    """SQL is read, formatted and reviewed in .sql files."""
    assert [] == statements_in_python(REPOSITORY)


def test_every_statement_has_one_caller_beside_it() -> None:
    """A statement without a caller is dead, one with two is a function of the schema."""
    assert [] == files_without_one_caller(REPOSITORY)


def test_every_section_has_a_use() -> None:
    """A section without a use is dead, and a use without its section fails when it runs."""
    assert [] == stray_sections(REPOSITORY)


def test_every_sql_file_opens_with_its_contract() -> None:
    """Who calls a statement is told first what it takes, gives and locks."""
    assert [] == files_without_contract(REPOSITORY)


def test_every_object_of_the_schema_has_a_file_of_its_name() -> None:
    """A name seen in psql is a file name here."""
    assert [] == misnamed_objects(REPOSITORY)


def test_every_exception_is_still_needed() -> None:
    """An exception for a module that is not there, or holds no SQL any more, is an open door."""
    stale = [
        name
        for name in sorted(COMPOSERS)
        if (path := REPOSITORY / name).exists()
        and not any(STATEMENT.match(text) for _, text in strings(parsed(path)))
    ]

    assert [] == stale


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM orchestrator.tasks",
        "\n    select now()",
        "select 1",
        "select id, queue from orchestrator.tasks",
        "INSERT INTO t VALUES (1)",
        "update orchestrator.tasks set status = 'pending'",
        "UPDATE orchestrator.tasks SET status = 'pending'",
        "DELETE FROM t",
        "WITH picked AS (SELECT 1) SELECT 2",
        "WITH picked AS MATERIALIZED (SELECT 1) SELECT 2",
        "CREATE OR REPLACE FUNCTION f() RETURNS int",
        "CREATE UNIQUE INDEX i ON t (id)",
        "ALTER TABLE t ADD c int",
        "drop schema orchestrator",
        "LISTEN orchestrator",
        "UNLISTEN *",
        "NOTIFY q, 'x'",
        "SET LOCAL lock_timeout = '100ms'",
        "set search_path to orchestrator",
        "DO $$ BEGIN END $$",
    ],
)
def test_a_statement_is_known_by_its_opening(text: str) -> None:
    """Every kind of statement is found, in capitals or not."""
    assert STATEMENT.match(text)


@pytest.mark.parametrize(
    "text",
    [
        "Select a queue from the list",
        "Update the schema to the newest revision",
        "Create the schema, or bring it up to date",
        "Delete a task",
        "With two workers, each runs once",
        "Set the default priority",
        "Listen for new tasks",
        "SELECT",
        "copy of the payload",
        "drop the connection",
    ],
)
def test_prose_is_not_taken_for_a_statement(text: str) -> None:
    """A help text may open with a word that SQL knows as well."""
    assert not STATEMENT.match(text)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A house in good order, for a fault to be planted in."""
    claim, functions = tmp_path / "orchestrator" / "claim", tmp_path / "orchestrator" / "schema" / "functions"
    claim.mkdir(parents=True)
    functions.mkdir(parents=True)
    (claim / "batch.py").write_text(
        '"""SELECT in a docstring is prose."""\nbatch = load(__file__, "batch.sql")\n'
    )
    (claim / "batch.sql").write_text("-- Claims a batch.\nSELECT 1\n")
    (functions / "clock.sql").write_text(
        "-- Not this: CREATE FUNCTION g().\n"
        "CREATE FUNCTION orchestrator.clock() AS $$ CREATE VIEW v AS … $$\n"
    )
    return tmp_path


def test_a_house_in_order_passes(house: Path) -> None:
    """The rules find nothing where nothing is wrong."""
    found = [
        *statements_in_python(house),
        *files_without_one_caller(house),
        *stray_sections(house),
        *files_without_contract(house),
        *misnamed_objects(house),
    ]

    assert [] == found


def test_a_statement_in_python_is_found(house: Path) -> None:
    """An f-string hides nothing."""
    (house / "orchestrator" / "claim" / "count.py").write_text(
        '"""Why."""\nrun("SELECT 1")\nrun(f"DELETE FROM {table}")\n'
    )

    expected = ["orchestrator/claim/count.py:2: SELECT …", "orchestrator/claim/count.py:3: DELETE …"]
    assert expected == statements_in_python(house)


def test_an_orphan_statement_is_found(house: Path) -> None:
    """A module of another room is no caller."""
    (house / "orchestrator" / "claim" / "release.sql").write_text("-- Releases.\n")
    (house / "orchestrator" / "release.py").write_text('load(__file__, "release.sql")\n')

    assert ["orchestrator/claim/release.sql: loaded by nobody"] == files_without_one_caller(house)


def test_a_shared_statement_is_found(house: Path) -> None:
    """Two callers would change one statement for two reasons."""
    (house / "orchestrator" / "claim" / "again.py").write_text('load(__file__, "batch.sql")\n')

    assert ["orchestrator/claim/batch.sql: loaded by ['again.py', 'batch.py']"] == files_without_one_caller(
        house
    )


def test_a_stray_section_is_found(house: Path) -> None:
    """Beside one that is used: one without a use, and one that is not there."""
    (house / "orchestrator" / "claim" / "gate.sql").write_text(
        "-- The gate.\n\n-- name: open\nSELECT 1\n\n-- name: shut\nSELECT 2\n"
    )
    (house / "orchestrator" / "claim" / "gate.py").write_text(
        '"""Why."""\nSQL = statement.sections(__file__, "gate.sql")\nrun(SQL["open"])\nrun(SQL["close"])\n'
    )

    expected = [
        "orchestrator/claim/gate.sql: gate.py does not use shut",
        "orchestrator/claim/gate.sql: has no close for gate.py",
    ]
    assert expected == stray_sections(house)


def test_a_missing_contract_is_found(house: Path) -> None:
    """A comment below the first line comes too late; the comment of one section is none of the next."""
    (house / "orchestrator" / "claim" / "batch.sql").write_text("SELECT 1\n-- Claims a batch.\n")
    (house / "orchestrator" / "claim" / "gate.sql").write_text(
        "-- name: open\n-- Opens.\nSELECT 1\n-- name: shut\nSELECT 2\n"
    )

    assert ["orchestrator/claim/batch.sql", "orchestrator/claim/gate.sql"] == files_without_contract(house)


def test_a_misnamed_object_is_found(house: Path) -> None:
    """A second object in the file and a name that differs are the same fault."""
    views = house / "orchestrator" / "schema" / "views"
    views.mkdir()
    (views / "leader.sql").write_text(
        "-- Who leads.\nCREATE VIEW orchestrator.leader AS …;\nCREATE VIEW more AS …;\n"
    )
    (views / "workers.sql").write_text(
        "-- Who lives.\nCREATE OR REPLACE VIEW orchestrator.live_workers AS …;\n"
    )

    expected = [
        "orchestrator/schema/views/leader.sql: creates ['leader', 'more']",
        "orchestrator/schema/views/workers.sql: creates ['live_workers']",
    ]
    assert expected == misnamed_objects(house)


def test_a_session_that_forbids_a_plan_forbids_jit_too() -> None:
    """A plan used all the same has a price at which jit starts: a hand's UPDATE of one row took 53 ms, not 0.6."""
    missing = [
        path.name
        for path in sorted((REPOSITORY / "orchestrator").rglob("*.sql"))
        if re.search(r"enable_\w+\W+(?:=\s*)?off", text := path.read_text())
        and not re.search(r"jit\W+(?:=\s*)?off", text)
    ]

    assert [] == missing
