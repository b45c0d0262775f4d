"""Every revision follows revision_rules.py, and the rules find what breaks them."""

from pathlib import Path

import pytest

from orchestrator.schema import freeze
from tests.house.revision_rules import faults, revisions


def test_old_code_survives_every_revision() -> None:
    """First a revision adds. A later, declared contraction removes, when no worker runs the old code any more."""
    assert [] == faults(freeze.VERSIONS)


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
    "CREATE OR REPLACE FUNCTION orchestrator.later(n int DEFAULT 7) RETURNS int AS $$ $$",
    "DROP VIEW orchestrator.leader; CREATE VIEW orchestrator.leader AS SELECT 1 AS n, 2 AS m",
    "DROP TRIGGER tasks_fill ON orchestrator.tasks;"
    " CREATE OR REPLACE TRIGGER tasks_fill BEFORE INSERT ON orchestrator.tasks FOR EACH ROW EXECUTE FUNCTION f()",
    "DROP FUNCTION orchestrator.found;"
    " CREATE FUNCTION orchestrator.found(INOUT n int, more int DEFAULT 1) AS $$ ' -- $$",
    "CREATE OR REPLACE FUNCTION orchestrator.enqueue(type text, payload jsonb) RETURNS int AS $$ DROP TABLE x $$",
    "DROP FUNCTION orchestrator.enqueue; CREATE FUNCTION orchestrator.enqueue(type text, payload jsonb,"
    " why text DEFAULT 'it, is', size numeric(3, 2) DEFAULT NULL) RETURNS int AS $$ $$",
    "DROP FUNCTION orchestrator.counts; CREATE FUNCTION orchestrator.counts(day date, OUT n int, OUT new int,"
    " OUT share double) RETURNS record AS $$ $$",
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
    "ALTER TABLE orchestrator.tasks_live ADD CHECK (id > 0)": "NOT VALID is missing",
    "DROP TRIGGER tasks_fill ON orchestrator.tasks": "removes what",
    "DROP TRIGGER tasks_fill ON orchestrator.tasks;"
    " CREATE TRIGGER tasks_fill BEFORE INSERT ON orchestrator.types FOR EACH ROW EXECUTE FUNCTION f()": "removes what",
    "CREATE OR REPLACE VIEW orchestrator.leader AS SELECT 1; DROP VIEW orchestrator.leader": "removes what",
    "DROP INDEX orchestrator.types_queue_idx": "removes what",
    "DROP FUNCTION orchestrator.found; CREATE FUNCTION orchestrator.found(INOUT n int, OUT m int) AS $$ $$":
        "older code calls it as",
    "CREATE OR REPLACE FUNCTION orchestrator.enqueue(type text, payload jsonb, why text DEFAULT NULL)"
    " RETURNS int AS $$ $$": "a second function of this name",
    "DROP FUNCTION orchestrator.enqueue; CREATE FUNCTION orchestrator.enqueue(type text, payload jsonb, why text)"
    " RETURNS int AS $$ $$": "older code calls it as enqueue(type text, payload jsonb)",
    "DROP FUNCTION orchestrator.enqueue; CREATE FUNCTION orchestrator.enqueue(payload jsonb, type text)"
    " RETURNS int AS $$ $$": "older code calls it as",
    "DROP FUNCTION orchestrator.enqueue; CREATE FUNCTION orchestrator.enqueue(type text, payload jsonb)"
    " RETURNS TABLE (id int) AS $$ $$": "older code calls it as",
    "DROP FUNCTION orchestrator.counts; CREATE FUNCTION orchestrator.counts(day date, OUT n int)"
    " RETURNS record AS $$ $$": "older code calls it as counts(day date)",
}  # fmt: skip
"""Statements that only a contraction may contain, with a part of the message."""

BUSY = {
    "CREATE INDEX CONCURRENTLY tags_idx ON orchestrator.tasks_dead (tags)": "cannot run in a transaction",
    "UPDATE orchestrator.tasks SET metadata = NULL": "writes the rows of a large table",
    "ALTER TABLE orchestrator.attempts ADD UNIQUE (task_id)": "writers of a large table wait",
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
        "CREATE FUNCTION orchestrator.counts(day date, OUT n int, OUT share double) RETURNS record LANGUAGE sql;\n"
        "CREATE FUNCTION orchestrator.found(INOUT n int) LANGUAGE sql AS $$ SELECT 'it''s -- one' $$;\n"
        "CREATE FUNCTION orchestrator.later(n int DEFAULT 5) RETURNS int LANGUAGE sql;\n"
    )
    return tmp_path


def add(versions: Path, *statements: str, module: str = "def upgrade() -> None: ...\n") -> None:
    """Add the second revision."""
    (versions / "0002_growth").mkdir()
    (versions / "0002_growth.py").write_text(module)
    (versions / "0002_growth" / "1_tables.sql").write_text(";\n".join(statements) + ";\n")


def test_every_function_of_the_schema_is_read() -> None:
    """Otherwise the rules would not see how it changes."""
    functions = {file.stem for file in (freeze.SCHEMA / "functions").glob("*.sql")}
    known = {name for revision in revisions(freeze.VERSIONS) for name in revision.signatures}

    assert functions <= known


def test_every_file_is_run() -> None:
    """The runner takes the files of a module's folder that have a number of one digit."""
    run = {file for folder in freeze.folders() for file in folder.glob("[0-9]_*.sql")}

    assert set(freeze.VERSIONS.rglob("*.sql")) == run


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
