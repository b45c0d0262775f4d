"""From the second revision on the schema only grows: workers of the previous release must work on the new schema.

A revision that removes something declares itself a contraction: it raises settings.oldest_code. Then older code no
longer starts, and the revision may remove what only that code needed. No revision may wait long for a lock, because
all later statements would wait behind it.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.parsing import parsed

VERSIONS = Path(__file__).parents[2] / "migrations" / "versions"
FOUNDATION = "0001"

# These tests cannot read other operations of alembic, and reviewers read SQL.
FROM_ALEMBIC = {"get_bind", "get_context", "execute"}
COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
BODY = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
STRING = re.compile(r"'(?:[^']|'')*'")
LARGE = r"(?:ONLY\s+)?orchestrator\.(?P<table>tasks\w*|attempts|audit|idempotency_keys)\b"
FUNCTION = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?FUNCTION\s+orchestrator\.(?P<name>\w+)\s*\((?P<arguments>.*?)\)\s*RETURNS",
    re.IGNORECASE | re.DOTALL,
)
CREATED_TABLE = re.compile(r"\bCREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?orchestrator\.(\w+)", re.IGNORECASE)
LOCK_TIMEOUT = re.compile(r"\s*SET\s+LOCAL\s+lock_timeout\s*(?:=|TO)\s*\S", re.IGNORECASE)
OLDEST_CODE = re.compile(r"UPDATE\s+orchestrator\.settings\s+SET\s+oldest_code\s*=\s*(\d+)", re.IGNORECASE)
ADDED_COLUMN = re.compile(
    r"\bADD\s+(?:COLUMN\s+)?(?!CONSTRAINT\b|CHECK\b|PRIMARY\b|UNIQUE\b|FOREIGN\b)\w", re.IGNORECASE
)
CONSTANT = r"(?:NULL|TRUE|FALSE|''|[\d.]+|orchestrator\.clock\(\)|now\(\)|current_\w+|session_user)"

GONE = "removes what older code uses"
BREAKS = [
    (r"\bDROP\s+(?:TABLE|VIEW|SEQUENCE|COLUMN|FUNCTION|SCHEMA|TYPE)\b", GONE),
    # A column, without the word COLUMN.
    (r"\bALTER\s+TABLE\b.*\bDROP\s+(?!CONSTRAINT\b|DEFAULT\b|NOT\b|EXPRESSION\b|IDENTITY\b)\w", GONE),
    (r"\bTRUNCATE\b", GONE),
    (r"\bRENAME\b", "renames what older code uses by its old name"),
    (r"\bALTER\s+(?:COLUMN\s+)?\w+\s+(?:SET\s+DATA\s+)?TYPE\b", "changes a type that older code uses"),
    (
        r"\bADD\s+CONSTRAINT\b(?!.*\bNOT\s+VALID\b)",
        "reads the whole table under a lock, because NOT VALID is missing",
    ),
]
"""Patterns of forbidden statements, with the reason. They match statements without comments, strings and bodies."""


@dataclass(frozen=True)
class Revision:
    """One revision of the schema, and the SQL of its upgrade."""

    name: str
    sql: str
    other_calls: list[str]

    @property
    def number(self) -> int:
        return int(self.name[:4])

    @property
    def statements(self) -> list[str]:
        bare = STRING.sub("''", BODY.sub("$$", COMMENT.sub("", self.sql)))
        return [" ".join(part.split()) for part in bare.split(";") if part.strip()]

    @property
    def signatures(self) -> dict[str, str]:
        found = FUNCTION.finditer(COMMENT.sub("", self.sql))
        return {one["name"]: " ".join(one["arguments"].split()) for one in found}

    @property
    def contracts_to(self) -> int | None:
        raised = OLDEST_CODE.search(COMMENT.sub("", self.sql))
        return int(raised[1]) if raised else None


def revisions(versions: Path) -> list[Revision]:
    """Read every revision: its module, and the SQL in the folder of the same name, without the downgrade."""
    found = []
    for module in sorted(versions.glob("[0-9]*.py")):
        files = sorted(versions.glob(f"{module.stem}/[0-9]*.sql"))
        written = [*calls(module, "upgrade", {"execute"}), *(file.read_text() for file in files)]
        other = [name for name, _ in called(parsed(module)) if name not in FROM_ALEMBIC]
        found.append(Revision(module.stem, ";\n".join(written), other))
    return found


def calls(module: Path, function: str, names: set[str]) -> list[str]:
    """Return the strings that a function of the module passes to these functions of alembic."""
    return [
        argument.value
        for node in parsed(module).body
        if isinstance(node, ast.FunctionDef) and node.name == function
        for name, call in called(node)
        if name in names
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def called(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of `op.…` inside a node."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="op"), attr=name)):
                yield name, node


def faults(versions: Path) -> list[str]:
    """Name the statements of later revisions that break older code or harm a busy database."""
    found: list[str] = []
    known: dict[str, str] = {}
    for revision in revisions(versions):
        if not revision.name.startswith(FOUNDATION):
            found_here = [*always(revision)]
            lowered = revision.contracts_to
            if lowered is None:
                found_here += [*breaking(revision), *overloads(revision, known)]
            elif not 1 < lowered <= revision.number:
                found_here.append(f"oldest_code {lowered}: names neither this revision nor one before it")
            found += [f"{revision.name}: {one}" for one in found_here]
        known |= revision.signatures
    return found


def always(revision: Revision) -> Iterator[str]:
    """Yield the faults that are forbidden even in a contraction."""
    yield from (f"op.{name}: write SQL in the folder of the same name" for name in revision.other_calls)
    if not revision.statements or not LOCK_TIMEOUT.match(revision.statements[0]):
        yield "does not begin with SET LOCAL lock_timeout: a wait for a lock would block all later statements"
    new = set(CREATED_TABLE.findall(" ".join(revision.statements)))
    for statement in revision.statements:
        index = re.search(
            rf"\bCREATE\s+(?:UNIQUE\s+)?INDEX\b(?!\s+CONCURRENTLY).*?\bON\s+{LARGE}", statement, re.IGNORECASE
        )
        if index and index["table"] not in new:
            yield f"{short(statement)}: writers of a large table wait during the build of the index"
        table = re.search(rf"\bALTER\s+TABLE\s+(?:IF\s+EXISTS\s+)?{LARGE}", statement, re.IGNORECASE)
        home = re.search(r"\bALTER\s+TABLE\s+orchestrator\.home\b", statement, re.IGNORECASE)
        if (home or (table and table["table"] not in new)) and rewrites(statement):
            yield f"{short(statement)}: rewrites every row of the table"


def rewrites(statement: str) -> bool:
    return any(
        re.search(r"\bSTORED\b", clause, re.IGNORECASE)
        or re.search(rf"\bDEFAULT\s+(?!{CONSTANT}(?:::\w+)?(?:\s|$))", clause, re.IGNORECASE)
        for clause in added_columns(statement)
    )


def breaking(revision: Revision) -> Iterator[str]:
    """Yield the faults that only a contraction may contain."""
    text = " ; ".join(revision.statements)
    for statement in revision.statements:
        for pattern, why in BREAKS:
            if re.search(pattern, statement, re.IGNORECASE):
                yield f"{short(statement)}: {why}"
                break
        for clause in added_columns(statement):
            if re.search(r"\bNOT\s+NULL\b", clause, re.IGNORECASE) and not re.search(
                r"\bDEFAULT\b|\bGENERATED\b", clause, re.IGNORECASE
            ):
                yield f"{short(statement)}: older code leaves the new column out, and it has no default"
        for column in re.findall(
            r"\bALTER\s+(?:COLUMN\s+)?(\w+)\s+SET\s+NOT\s+NULL\b", statement, re.IGNORECASE
        ):
            if not re.search(rf"\b{column}\b[^,;]*\bDEFAULT\s", text, re.IGNORECASE):
                yield f"{short(statement)}: older code may leave it out, and it has no default"


def overloads(revision: Revision, known: dict[str, str]) -> Iterator[str]:
    """Yield each second function of a known name: it makes calls without optional arguments ambiguous."""
    for name, arguments in revision.signatures.items():
        if known.get(name, arguments) != arguments:
            yield f"{name}({arguments}): has other arguments than ({known[name]}); give it another name"


def added_columns(statement: str) -> list[str]:
    """Return the clauses of a statement that add a column to an existing table."""
    if not re.match(r"ALTER\s+TABLE\b", statement, re.IGNORECASE):
        return []
    # Split at each comma that begins a new action, and keep the actions that add a column.
    clauses = re.split(r",\s*(?=(?:ADD|ALTER|DROP|SET|VALIDATE)\b)", statement, flags=re.IGNORECASE)
    return [clause for clause in clauses if ADDED_COLUMN.search(clause)]


def short(statement: str) -> str:
    return statement if len(statement) <= 70 else f"{statement[:67]}…"


def test_old_code_survives_every_revision() -> None:
    """First a revision adds. A later, declared contraction removes, when no worker runs the old code any more."""
    assert [] == faults(VERSIONS)


SURVIVED = [
    "ALTER TABLE orchestrator.tasks ADD COLUMN deadline timestamptz",
    "ALTER TABLE orchestrator.tasks ADD COLUMN deadline timestamptz, ADD COLUMN weight integer NOT NULL DEFAULT 1",
    "ALTER TABLE orchestrator.queues ADD COLUMN at timestamptz NOT NULL DEFAULT orchestrator.clock()",
    "ALTER TABLE orchestrator.queues ADD COLUMN tag uuid NOT NULL DEFAULT gen_random_uuid()",
    "ALTER TABLE orchestrator.workers ALTER COLUMN beacon SET DEFAULT 0, ALTER COLUMN beacon SET NOT NULL",
    "ALTER TABLE orchestrator.tasks_live ADD CONSTRAINT positive CHECK (id > 0) NOT VALID",
    "ALTER TABLE orchestrator.queues DROP CONSTRAINT queues_aging_check",
    "ALTER TABLE orchestrator.types ALTER COLUMN queue DROP DEFAULT, ALTER priority DROP NOT NULL",
    "CREATE TABLE orchestrator.tasks_limits (id bigint NOT NULL);"
    " CREATE INDEX limits_idx ON orchestrator.tasks_limits (id)",
    "CREATE INDEX types_queue_idx ON orchestrator.types (queue)",
    "CREATE INDEX CONCURRENTLY tags_idx ON orchestrator.tasks_dead (tags)",
    "CREATE OR REPLACE FUNCTION orchestrator.enqueue(type text, payload jsonb) RETURNS int AS $$ DROP TABLE x $$",
    "CREATE FUNCTION orchestrator.enqueue_later(type text, delay interval DEFAULT '1 s') RETURNS int AS $$ $$",
    "-- DROP TABLE orchestrator.tasks\nCOMMENT ON TABLE orchestrator.tasks IS 'do not RENAME; it''s ours'",
]
"""Statements that each revision may contain."""

BROKEN = {
    "DROP TABLE orchestrator.audit": "removes what",
    "DROP VIEW orchestrator.leader": "removes what",
    "DROP FUNCTION orchestrator.cancel(bigint, text)": "removes what",
    "TRUNCATE orchestrator.attempts": "removes what",
    "ALTER TABLE orchestrator.workers DROP COLUMN beacon": "removes what",
    "ALTER TABLE orchestrator.workers DROP beacon": "removes what",
    "ALTER TABLE orchestrator.workers RENAME COLUMN beacon TO light": "renames",
    "ALTER TABLE orchestrator.workers RENAME TO laborers": "renames",
    "ALTER FUNCTION orchestrator.cancel(bigint, text) RENAME TO stop": "renames",
    "ALTER TABLE orchestrator.tasks ALTER COLUMN priority TYPE integer": "changes a type",
    "ALTER TABLE orchestrator.tasks ALTER priority SET DATA TYPE integer": "changes a type",
    "ALTER TABLE orchestrator.workers ALTER COLUMN beacon SET NOT NULL": "older code may leave it out",
    "ALTER TABLE orchestrator.tasks ADD COLUMN deadline timestamptz NOT NULL": "older code leaves the new column",
    "ALTER TABLE orchestrator.types ADD COLUMN a int DEFAULT 1, ADD b int NOT NULL": "older code leaves the new",
    "ALTER TABLE orchestrator.tasks_live ADD CONSTRAINT positive CHECK (id > 0)": "NOT VALID is missing",
    "CREATE OR REPLACE FUNCTION orchestrator.enqueue(type text, payload jsonb, why text DEFAULT NULL)"
    " RETURNS int AS $$ $$": "give it another name",
}  # fmt: skip
"""Statements that only a contraction may contain, with a part of the message."""

BUSY = {
    "CREATE INDEX tags_idx ON orchestrator.tasks_live USING gin (tags)": "writers of a large table wait",
    "CREATE UNIQUE INDEX IF NOT EXISTS tags_idx ON ONLY orchestrator.attempts (id)": "writers of a large table wait",
    "ALTER TABLE orchestrator.tasks ADD COLUMN tag uuid DEFAULT gen_random_uuid()": "rewrites every",
    "ALTER TABLE orchestrator.tasks ADD COLUMN size int GENERATED ALWAYS AS (length(type)) STORED": "rewrites every",
    "ALTER TABLE orchestrator.home ADD COLUMN tag uuid DEFAULT gen_random_uuid()": "rewrites every",
}
"""Statements that are forbidden even in a contraction, with a part of the message."""

CONTRACTION = "UPDATE orchestrator.settings SET oldest_code = {}"
PATIENT = "SET LOCAL lock_timeout = '2s'"


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """A folder with a first revision, for which no rule holds."""
    (tmp_path / "0001_foundation").mkdir()
    (tmp_path / "0001_foundation.py").write_text("def upgrade() -> None: ...\n")
    (tmp_path / "0001_foundation" / "1_tables.sql").write_text(
        "CREATE FUNCTION orchestrator.enqueue(type text,\n    payload jsonb)\nRETURNS int AS $$ $$;\nDROP TABLE x;\n"
    )
    return tmp_path


def add(versions: Path, *statements: str, module: str = "def upgrade() -> None: ...\n") -> None:
    """Add the second revision. The rules do not check its downgrade."""
    (versions / "0002_growth").mkdir()
    (versions / "0002_growth.py").write_text(module)
    (versions / "0002_growth" / "1_tables.sql").write_text(";\n".join(statements) + ";\n")
    (versions / "0002_growth" / "downgrade.sql").write_text("DROP TABLE orchestrator.limits;\n")


@pytest.mark.parametrize("statement", SURVIVED)
def test_additions_pass(versions: Path, statement: str) -> None:
    """Older code does not notice these changes, or need not fill in the new columns."""
    add(versions, PATIENT, statement)

    assert [] == faults(versions)


@pytest.mark.parametrize("statement", BROKEN)
def test_a_change_that_breaks_older_code_is_found(versions: Path, statement: str) -> None:
    """The message names the revision and the reason."""
    add(versions, PATIENT, statement)

    (found_here,) = faults(versions)

    assert found_here.startswith("0002_growth: ")
    assert BROKEN[statement] in found_here


@pytest.mark.parametrize("statement", BROKEN)
def test_a_contraction_may_break_older_code(versions: Path, statement: str) -> None:
    """Older code no longer starts after a contraction."""
    add(versions, PATIENT, CONTRACTION.format(2), statement)

    assert [] == faults(versions)


@pytest.mark.parametrize("statement", BUSY)
@pytest.mark.parametrize("declared", [[], [CONTRACTION.format(2)]], ids=["expands", "contracts"])
def test_a_statement_that_harms_a_busy_database_is_found(
    versions: Path, statement: str, declared: list[str]
) -> None:
    """The rule finds it even in a contraction."""
    add(versions, PATIENT, *declared, statement)

    (found_here,) = faults(versions)

    assert BUSY[statement] in found_here


@pytest.mark.parametrize("first", ["SELECT 1", "SET lock_timeout = '2s'", "-- SET LOCAL lock_timeout = '2s'"])
def test_a_revision_without_a_lock_timeout_is_found(versions: Path, first: str) -> None:
    """The revision sets it for the transaction, in its first statement."""
    add(versions, first, PATIENT if "--" not in first else "SELECT 1")

    (found_here,) = faults(versions)

    assert "does not begin with SET LOCAL lock_timeout" in found_here


@pytest.mark.parametrize("number", [1, 3])
def test_a_contraction_names_an_existing_revision(versions: Path, number: int) -> None:
    """It cannot name the first revision, because no code is older, or a later one than itself."""
    add(versions, PATIENT, CONTRACTION.format(number))

    assert [
        f"0002_growth: oldest_code {number}: names neither this revision nor one before it"
    ] == faults(versions)  # fmt: skip


def test_the_rules_read_the_module_of_a_revision(versions: Path) -> None:
    """They read the SQL that Python runs, and forbid alembic's own operations."""
    lines = [
        "def upgrade() -> None:",
        "    op.execute('SET LOCAL lock_timeout = 1')",
        "    op.execute('DROP TABLE orchestrator.x')",
        "    op.drop_column('tasks', 'type')",
        "def downgrade() -> None:",
        "    op.execute('DROP TABLE orchestrator.y')",
    ]
    add(versions, "SELECT 1", module="\n".join(lines))

    assert [
        "0002_growth: op.drop_column: write SQL in the folder of the same name",
        "0002_growth: DROP TABLE orchestrator.x: removes what older code uses",
    ] == faults(versions)  # fmt: skip
