"""SQL has four places: beside its one caller, in schema/, in a migration, and in operate/search.py.

operate/search.py composes statements in Python. All other SQL is in .sql files, which tools can read and format.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.postgres import statement
from tests.house.parsing import parsed

REPOSITORY = Path(__file__).parents[2]

# The modules that may contain SQL, each with its reason. All other SQL is in .sql files.
COMPOSERS = {
    "orchestrator/operate/search.py",  # composes a statement from the filters of an operator
}

# The rule recognises a statement by its beginning. Prose may begin with some of these words too, as in "Update the
# schema" and "select a queue", so for them the pattern needs more of the statement.
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
    """Name every string in a Python module that begins like an SQL statement."""
    return [
        f"{path.relative_to(root)}:{line}: {text.split()[0]} …"
        for path in sorted((root / "orchestrator").rglob("*.py"))
        if str(path.relative_to(root)) not in COMPOSERS
        for line, text in strings(parsed(path))
        if STATEMENT.match(text)
    ]


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every string that is not a docstring. An f-string has `{}` in place of each expression."""
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
    """Name the .sql files outside schema/ that are not loaded by exactly one module of their folder."""
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
    """Name the sections that the caller of their file does not use, and the missing sections that it looks up.

    load() itself refuses a section that is missing or exists twice, as soon as the module is imported.
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
    """Name the .sql files that do not begin with a comment. It describes parameters, results and locks."""
    return [str(path.relative_to(root)) for path in sql_files(root) if not has_contract(path)]


def has_contract(path: Path) -> bool:
    """Return whether a file, or each of its sections if it begins with a section, begins with a comment."""
    text = path.read_text().lstrip()
    if not text.startswith("-- name: "):
        return text.startswith(("--", "/*"))
    return all(each.startswith(b"--") for each in statement.sections(str(path), path.name).values())


def misnamed_objects(root: Path) -> list[str]:
    """Name the files of schema/ that do not create exactly the object of their name.

    Overloads of a function share a file, and so may a trigger and its function, because they have the same name.
    """
    schema = root / "orchestrator" / "schema"
    return [
        f"{path.relative_to(root)}: creates {sorted(created) or 'nothing'}"
        for folder in ("functions", "views", "triggers")
        for path in sorted((schema / folder).rglob("*.sql"))
        if (created := created_names(path.read_text())) != {path.stem}
    ]


def created_names(text: str) -> set[str]:
    """Return the names of the objects that a script creates. Comments and function bodies do not count."""
    return set(CREATED.findall(QUOTED_BODY.sub("", COMMENT.sub("", text))))


def test_no_module_holds_sql() -> None:
    """SQL is in .sql files, so that tools can format it and reviewers can read it."""
    assert [] == statements_in_python(REPOSITORY)


def test_every_statement_has_one_caller_beside_it() -> None:
    """Delete a statement without a caller. Make a statement with two callers a function of the schema."""
    assert [] == files_without_one_caller(REPOSITORY)


def test_every_section_has_a_use() -> None:
    """Delete a section without a use. A use of a missing section fails at run time."""
    assert [] == stray_sections(REPOSITORY)


def test_every_sql_file_begins_with_its_contract() -> None:
    """The reader learns first what a statement takes, returns and locks."""
    assert [] == files_without_contract(REPOSITORY)


def test_every_object_of_the_schema_has_a_file_of_its_name() -> None:
    """Readers find the file of an object by the name that psql shows."""
    assert [] == misnamed_objects(REPOSITORY)


def test_every_exception_is_still_needed() -> None:
    """Delete an exception for a module that is gone, or that contains no SQL any more."""
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
def test_a_statement_is_recognised_by_its_beginning(text: str) -> None:
    """The rule finds every kind of statement, in upper and lower case."""
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
    """A help text may begin with a word of SQL."""
    assert not STATEMENT.match(text)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small package without faults. Tests add a fault to it."""
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


def test_a_package_without_faults_passes(house: Path) -> None:
    """The rules report nothing."""
    found = [
        *statements_in_python(house),
        *files_without_one_caller(house),
        *stray_sections(house),
        *files_without_contract(house),
        *misnamed_objects(house),
    ]

    assert [] == found


def test_a_statement_in_python_is_found(house: Path) -> None:
    """The rule reads f-strings too."""
    (house / "orchestrator" / "claim" / "count.py").write_text(
        '"""Why."""\nrun("SELECT 1")\nrun(f"DELETE FROM {table}")\n'
    )

    expected = ["orchestrator/claim/count.py:2: SELECT …", "orchestrator/claim/count.py:3: DELETE …"]
    assert expected == statements_in_python(house)


def test_a_statement_without_a_caller_is_found(house: Path) -> None:
    """A module of another folder does not count as a caller."""
    (house / "orchestrator" / "claim" / "release.sql").write_text("-- Releases.\n")
    (house / "orchestrator" / "release.py").write_text('load(__file__, "release.sql")\n')

    assert ["orchestrator/claim/release.sql: loaded by nobody"] == files_without_one_caller(house)


def test_a_shared_statement_is_found(house: Path) -> None:
    """With two callers a statement would change for two reasons."""
    (house / "orchestrator" / "claim" / "again.py").write_text('load(__file__, "batch.sql")\n')

    assert ["orchestrator/claim/batch.sql: loaded by ['again.py', 'batch.py']"] == files_without_one_caller(
        house
    )


def test_a_stray_section_is_found(house: Path) -> None:
    """One section has no use, and one use has no section."""
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
    """The comment must come first. The comment of one section does not count for the next."""
    (house / "orchestrator" / "claim" / "batch.sql").write_text("SELECT 1\n-- Claims a batch.\n")
    (house / "orchestrator" / "claim" / "gate.sql").write_text(
        "-- name: open\n-- Opens.\nSELECT 1\n-- name: shut\nSELECT 2\n"
    )

    assert ["orchestrator/claim/batch.sql", "orchestrator/claim/gate.sql"] == files_without_contract(house)


def test_a_misnamed_object_is_found(house: Path) -> None:
    """The file creates a second object, or an object of another name."""
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
    """Such a plan may still run, at a cost that starts jit: an operator's UPDATE of one row took 53 ms, not 0.6."""
    missing = [
        path.name
        for path in sorted((REPOSITORY / "orchestrator").rglob("*.sql"))
        if re.search(r"enable_\w+\W+(?:=\s*)?off", text := path.read_text())
        and not re.search(r"jit\W+(?:=\s*)?off", text)
    ]

    assert [] == missing
