"""Today's code on tomorrow's schema: an invented second revision is applied while a worker of today works.

The revisions follow the rules in tests/house/revision_rules.py, and the real runner runs them from a copy of the
migrations' folder.
"""

import json
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from orchestrator.errors import SchemaError
from orchestrator.schema import compatibility, migrate
from tests.house.edited_copy import NOW, edit_a_copy
from tests.house.edited_copy import run as run_in_copy
from tests.house.revision_rules import faults
from tests.house.test_new_option import EDITS
from tests.patience import PATIENCE_SECONDS, eventually
from tests.schema.rows import one, put
from tests.worker.processes import run, worker
from tests.worker.running import statuses

SHOP = "tests.worker.tasks:app"
ENOUGH = 200
MODULE = '''"""Made up by a test."""

from orchestrator.schema import revision_files

revision = "{number:04}"
down_revision = "{before:04}"


def upgrade() -> None:
    revision_files.upgrade(__file__)
'''
EXPANSION = """
SET LOCAL lock_timeout = '2s';
ALTER TABLE orchestrator.tasks ADD COLUMN cutoff timestamptz, ADD COLUMN weight integer NOT NULL DEFAULT 1;
ALTER TABLE orchestrator.workers ADD COLUMN region text;
CREATE TABLE orchestrator.limits (name text PRIMARY KEY, at_once integer NOT NULL);
CREATE INDEX workers_region_idx ON orchestrator.workers (region) WHERE region IS NOT NULL;
CREATE FUNCTION orchestrator.enqueue_until(type text, payload jsonb DEFAULT '{}', cutoff timestamptz DEFAULT NULL)
RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    INSERT INTO orchestrator.tasks (type, payload, cutoff)
    VALUES (enqueue_until.type, enqueue_until.payload, enqueue_until.cutoff)
    RETURNING id
$$;
"""
CONTRACTION = """
SET LOCAL lock_timeout = '2s';
UPDATE orchestrator.settings SET oldest_code = {oldest_code};
ALTER TABLE orchestrator.workers DROP COLUMN region;
"""
FULL = 200_000
FILL = """
    INSERT INTO orchestrator.tasks (type, run_at, payload)
    SELECT 'shop.add', now() + interval '1 year', '{"first": 1, "second": 2}' FROM generate_series(1, %s)
"""
ENQUEUE_WITH_THE_OPTION = """
    SELECT orchestrator.enqueue('shop.add', '{"first": 1, "second": 2}', colour => 'red')
"""
AHEAD_MAX = 500
ENQUEUE = """
    SELECT orchestrator.enqueue('shop.add', '{"first": 1, "second": 2}')
    WHERE %s > (SELECT count(*) FROM (SELECT FROM orchestrator.tasks_live LIMIT %s) AS waiting)
"""
Bring = Callable[[str], None]


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str) -> Bring:
    """A function that adds a revision to a copy of the migrations, and migrates the database to it."""
    copy = shutil.copytree(
        migrate.scripts(), tmp_path / "migrations", ignore=shutil.ignore_patterns("__pycache__")
    )
    monkeypatch.setattr(migrate, "scripts", lambda: copy)

    def bring(statements: str) -> None:
        number = int(migrate.head()) + 1
        name = f"{number:04}_made_up"
        (copy / "versions" / name).mkdir()
        (copy / "versions" / name / "1_tables.sql").write_text(statements)
        (copy / "versions" / f"{name}.py").write_text(MODULE.format(number=number, before=number - 1))
        assert [] == faults(copy / "versions")
        migrate.upgrade(database_url)
        assert (f"{number:04}",) * 2 == migrate.state(database_url)

    return bring


@contextmanager
def enqueueing(url: str) -> Iterator[Callable[[], int]]:
    """Enqueue one task per transaction, fast but never far ahead of the worker. Yield the number of tasks. Any error
    fails the test."""
    counted = 0
    stop = threading.Event()
    failed: list[Exception] = []

    def enqueue() -> None:
        nonlocal counted
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                while not stop.is_set():
                    counted += connection.execute(ENQUEUE, [AHEAD_MAX, AHEAD_MAX]).rowcount
        except psycopg.Error as error:
            failed.append(error)

    thread = threading.Thread(target=enqueue)
    thread.start()
    try:
        yield lambda: counted
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)
    assert [] == failed


def errors(log: str) -> list[str]:
    """Return the lines of a worker's log that report an error.

    A duty that would wait behind the migration's lock gives way, and runs again at the next beat."""
    lines = [line for line in log.splitlines() if json.loads(line)["level"] in ("error", "critical")]
    return [line for line in lines if '"duty failed"' not in line or '"LockNotAvailable"' not in line]


def test_a_revision_arrives_under_a_working_worker_and_producer(
    database_url: str, connection: psycopg.Connection, bring: Bring, tmp_path: Path
) -> None:
    """Nothing is lost, and nothing fails. A worker of today also starts on the schema of tomorrow."""
    with (
        worker(database_url, tmp_path / "log", "-c", "4") as process,
        enqueueing(database_url) as enqueued,
    ):
        eventually(lambda: statuses(connection).get("completed", 0) > ENOUGH, "they are at work")

        bring(EXPANSION)

        before = enqueued()
        eventually(lambda: statuses(connection).get("completed", 0) > before + ENOUGH, "they go on")
        assert None is process.popen.poll()
    # Enqueued beside the killed one's last batch: those that it held wait for recovery, and are not asked for here.
    new = one(connection, "SELECT orchestrator.enqueue_until('shop.add', '{\"first\": 1, \"second\": 2}')")
    done = run(
        "worker", SHOP, "--until-empty", url=database_url, ORCHESTRATOR_HEARTBEAT_SECONDS="0.2",
        ORCHESTRATOR_DEAD_AFTER_SECONDS="1",
    )  # fmt: skip

    assert (0, []) == (done.returncode, errors(done.stderr)), done.stderr
    assert [] == errors(process.log)
    assert {"completed": enqueued() + 1} == statuses(connection)
    assert "completed" == one(connection, "SELECT status FROM orchestrator.tasks WHERE id = %s", [new])


@pytest.mark.long
def test_a_new_option_arrives_on_a_full_database(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The revision is made as CONTRIBUTING.md says. It replaces functions that a producer calls all the time. Worker
    and producer of today go on; then a worker of tomorrow does the rest."""
    edit_a_copy(tmp_path / "copy", EDITS)
    connection.execute(FILL, [FULL])
    connection.execute("UPDATE orchestrator.tasks SET status = 'cancelled'")
    with (
        worker(database_url, tmp_path / "log", "-c", "4") as process,
        enqueueing(database_url) as enqueued,
    ):
        eventually(lambda: statuses(connection).get("completed", 0) > ENOUGH, "they are at work")

        run_in_copy(tmp_path / "copy", "-m", "orchestrator", "migrate", "--url", database_url)

        before = enqueued()
        eventually(lambda: statuses(connection).get("completed", 0) > before + ENOUGH, "they go on")
        assert None is process.popen.poll()
        process.signal(signal.SIGTERM)
        assert 0 == process.wait(), process.log
    new = one(connection, ENQUEUE_WITH_THE_OPTION)
    run_in_copy(
        tmp_path / "copy", "-m", "orchestrator", "worker", SHOP, "--until-empty", "--url", database_url
    )

    assert [] == errors(process.log)
    assert {"completed": enqueued() + 1, "cancelled": FULL} == statuses(connection)
    assert ("completed", "red") == connection.execute(
        "SELECT status, colour FROM orchestrator.tasks WHERE id = %s", [new]
    ).fetchone()


def test_code_that_is_too_old_does_not_start_after_a_contraction(
    database_url: str, connection: psycopg.Connection, bring: Bring
) -> None:
    """It starts on the expansion. After the contraction an error says what to do."""
    bring(EXPANSION)
    expanded = run("worker", SHOP, "--until-empty", url=database_url)
    bring(CONTRACTION.format(oldest_code=NOW + 1))
    task_id = put(connection)

    contracted = run("worker", SHOP, "--until-empty", url=database_url)

    assert (0, 1) == (expanded.returncode, contracted.returncode), expanded.stderr
    assert (
        f"error: the database's schema is at revision {NOW + 2:04} and bears code made for {NOW + 1:04} or newer; "
        f"this version was made for {NOW:04}. Install a newer pg-orchestrator\n"
    ) == contracted.stderr
    assert "pending" == one(connection, "SELECT status FROM orchestrator.tasks WHERE id = %s", [task_id])


def test_code_of_tomorrow_does_not_start_on_the_schema_of_today(
    connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schema is migrated first, then the workers are replaced."""
    monkeypatch.setattr(compatibility, "NEEDED", NOW + 1)

    with pytest.raises(
        SchemaError,
        match=rf"is at revision {NOW:04}; this version needs {NOW + 1:04}\. Run `orchestrator migrate`",
    ):
        compatibility.require(connection)


def test_a_revision_that_cannot_have_its_lock_changes_nothing(
    database_url: str, connection: psycopg.Connection, bring: Bring
) -> None:
    """A long transaction uses the tasks: the migration gives up, no session waits behind it for ever, and it can run
    again."""
    with psycopg.connect(database_url) as long:
        long.execute("TABLE orchestrator.tasks")
        with pytest.raises(SchemaError, match=r"nothing was changed.*run it again"):
            bring(EXPANSION.replace("'2s'", "'100ms'"))
        assert f"{NOW:04}" == migrate.state(database_url)[0]
        assert None is one(connection, "SELECT to_regclass('orchestrator.limits')")

    migrate.upgrade(database_url)

    assert f"{NOW + 1:04}" == migrate.state(database_url)[0]
