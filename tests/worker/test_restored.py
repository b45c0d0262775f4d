"""Real workers and a real dump, made while tasks run: what starts elsewhere, what does not, and what an operator
must do."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests import dumps, servers
from tests.patience import eventually
from tests.worker.processes import run, worker
from tests.worker.running import attempts, status, statuses, value

SHOP = "tests.worker.tasks:app"
DOOR = 7


@pytest.fixture
def elsewhere(administrator: psycopg.Connection, server_url: str) -> Iterator[str]:
    """The URL of an empty database, for a copy."""
    name = f"orchestrator_copy_{uuid4().hex}"
    administrator.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    yield servers.url_of(server_url, name)
    administrator.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_a_restored_dump_waits_and_then_runs_everything(
    database_url: str, connection: psycopg.Connection, elsewhere: str, tmp_path: Path
) -> None:
    """A worker refuses with a sentence, a migration does not resume the copy, an operator does. The original does
    not change."""
    connection.execute("SELECT pg_advisory_lock(%s)", [DOOR])
    knock = "SELECT orchestrator.enqueue('shop.knock', '{\"door\": 7}')"
    running = [value(connection, knock) for _ in range(2)]
    with worker(database_url, tmp_path / "log", "-c", "2") as original:
        eventually(lambda: statuses(connection) == {"running": 2}, "both are running")
        waiting = value(connection, knock)
        dumps.restore(elsewhere, dumps.dump(database_url, tmp_path / "dump", "--format=custom"))

        refused = run("worker", SHOP, "--until-empty", url=elsewhere)
        migrated = run("migrate", url=elsewhere)
        again = run("worker", SHOP, "--until-empty", url=elsewhere)
        resumed = run("resume", "--after-restore", "--yes", "--reason", "a drill", url=elsewhere)
        worked = run("worker", SHOP, "--until-empty", url=elsewhere)

        connection.execute("SELECT pg_advisory_unlock_all()")
        eventually(lambda: statuses(connection) == {"completed": 3}, "the original runs its own")

    codes = [done.returncode for done in (refused, migrated, again, resumed, worked)]
    assert [1, 0, 1, 0, 0] == codes, worked.stderr
    assert refused.stderr.startswith(
        "error: the tasks in this database are a copy: they were at home in database "
    )
    assert "then run `orchestrator resume --after-restore`\n" in refused.stderr
    assert refused.stderr == again.stderr
    assert "warning: the tasks in this database are a copy: " in migrated.stderr
    # The original may have claimed the third task ahead.
    given_back = "resumed: [01] claimed and 2 running tasks were given back, 1 workers declared dead"
    assert re.search(given_back, resumed.stdout), resumed.stdout
    assert '"level": "error"' not in original.log
    with psycopg.connect(elsewhere, autocommit=True) as copy:
        assert {"completed": 3} == statuses(copy)
        # The door of the copy is another: what had run in the original runs here as the second attempt.
        assert [[(1, "lost")], [(1, "lost")], []] == [attempts(copy, n) for n in (*running, waiting)]
        assert {0} == {n for (n,) in copy.execute("SELECT losses FROM orchestrator.tasks").fetchall()}


def test_a_worker_whose_database_is_replaced_claims_nothing(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """It goes on beating, in the row from the dump. After an operator has resumed the database, it starts anew and
    works."""
    with worker(database_url, tmp_path / "log") as process:
        eventually(lambda: process.has_logged("worker started"), "it serves")
        task_id = value(connection, "SELECT orchestrator.enqueue('shop.work', delay => '0.4 s')")
        file = dumps.dump(database_url, tmp_path / "dump", "--format=custom")
        dumps.restore(database_url, file, "--clean", "--if-exists", "--single-transaction")
        beat_at = value(connection, "SELECT max(beat_at) FROM orchestrator.workers")

        beaten = (
            "SELECT count(*) FROM orchestrator.workers WHERE beat_at > %s::timestamptz + interval '1 second'"
        )
        eventually(lambda: value(connection, beaten, beat_at), "it beats, and polls")
        assert status(connection, task_id) in ("scheduled", "pending")
        assert 0 == run("resume", "--after-restore", "--yes", url=database_url).returncode
        eventually(lambda: status(connection, task_id) == "completed", "it works")

        assert process.has_logged("worker declared dead")


def test_a_worker_that_runs_claims_nothing_while_held(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """hold_after_restore() is for a copy that the database cannot recognise."""
    with worker(database_url, tmp_path / "log") as process:
        eventually(lambda: process.has_logged("worker started"), "it serves")
        connection.execute("SELECT orchestrator.hold_after_restore()")
        task_id = value(connection, "SELECT orchestrator.enqueue('shop.work')")
        held_at = value(connection, "SELECT now()")

        beaten = (
            "SELECT count(*) FROM orchestrator.workers WHERE beat_at > %s::timestamptz + interval '1 second'"
        )
        eventually(lambda: value(connection, beaten, held_at), "it beats, and polls")
        assert "pending" == status(connection, task_id)
        connection.execute("SELECT orchestrator.resume_after_restore()")
        eventually(lambda: status(connection, task_id) == "completed", "it works")
