"""Manual changes and workers on the same rows, leaves that are missing or being made, and a publication of all
tables."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import getrandbits
from uuid import UUID

import psycopg
import pytest

import orchestrator
from tests.races import statements
from tests.schema.rows import one, put, read, refusal, sleeping_worker
from tests.tiers import long

LOCK_TIMEOUT, MOVED = "55P03", "40001"
EVERYWHERE = statements.everywhere(["default"])
ROOT = Path(orchestrator.__file__).parent
CLAIM = (ROOT / "claim" / "batch.sql").read_bytes()
SESSION = (ROOT / "postgres" / "session.sql").read_bytes()
COMPLETE = (ROOT / "finish" / "complete.sql").read_bytes()
FILL = """
    INSERT INTO orchestrator.tasks_live (id, type, queue, status, priority, max_attempts, timeout, aging_us, run_at)
    SELECT nextval('orchestrator.tasks_id_seq'),
        'mail', 'default', 'pending', 50, 4, '5 min', 0, now() FROM generate_series(1, 20000)
"""


def claim_and_finish(connection: psycopg.Connection, worker_id: UUID) -> int:
    """Do one round of a worker: claim and finish. Return the number of finished tasks."""
    lease = getrandbits(63)
    params = {**EVERYWHERE, "batch_size": 50, "lease": lease, "worker_id": worker_id}
    ids = sorted(row[0] for row in connection.execute(CLAIM, params))
    outcome = {"ids": ids, "leases": [lease] * len(ids), "results": None, "ages": [0] * len(ids)}
    accepted = connection.execute(COMPLETE, outcome).fetchone()
    assert accepted is not None
    return int(accepted[0])


@contextmanager
def four_workers(connection: psycopg.Connection, database_url: str) -> Iterator[dict[str | None, int]]:
    """Let four sessions work on the default queue. Yield how often they finished a task, and how often they failed."""
    counts: dict[str | None, int] = {None: 0}
    stop = threading.Event()

    def work() -> None:
        with psycopg.connect(database_url, autocommit=True) as own:
            own.execute(SESSION)
            while not stop.is_set():
                try:
                    counts[None] += claim_and_finish(own, worker_id)
                except psycopg.Error as error:
                    counts[error.sqlstate] = counts.get(error.sqlstate, 0) + 1

    worker_id = sleeping_worker(connection, "default")
    with ThreadPoolExecutor(4) as threads:
        done = [threads.submit(work) for _ in range(4)]
        try:
            yield counts
        finally:
            stop.set()
    for future in done:
        future.result()


@pytest.mark.parametrize(
    "statement",
    [
        long(
            "UPDATE orchestrator.tasks SET priority = 60 - priority % 20"
            " WHERE queue = 'default' AND finished_at IS NULL"
        ),
        "UPDATE orchestrator.tasks SET status = 'pending' WHERE queue = 'default' AND finished_at IS NULL",
        "DELETE FROM orchestrator.tasks WHERE id % 10 = 0 AND status = 'pending'",
    ],
    ids=["priority", "requeue", "delete"],
)
def test_a_manual_bulk_update_and_four_workers_do_not_disturb_each_other(
    connection: psycopg.Connection, database_url: str, statement: str
) -> None:
    """The manual change never fails, and no worker fails with 40001, because none of them moves rows by UPDATE. In a
    deadlock the worker gives way (lock_timeout), and its outbox tries again."""
    connection.execute(FILL)

    with four_workers(connection, database_url) as counts:
        rows = sum(connection.execute(statement.encode()).rowcount for _ in range(4))

    assert rows
    assert set(counts) <= {None, LOCK_TIMEOUT}


def test_a_manual_bulk_cancel_succeeds_beside_four_workers(
    connection: psycopg.Connection, database_url: str
) -> None:
    """It moves rows, so a claim that has just read one may have to be repeated; the manual UPDATE never."""
    connection.execute(FILL)

    with four_workers(connection, database_url) as counts:
        for digit in range(5):
            connection.execute(
                "UPDATE orchestrator.tasks SET status = 'cancelled' WHERE status = 'pending' AND id %% 10 = %s",
                [digit],
            )

    print(f"beside a manual cancel: {counts}")  # noqa: T201 - a measurement
    assert set(counts) <= {None, LOCK_TIMEOUT, MOVED}


def test_a_requeue_of_finished_tasks_succeeds_beside_four_workers(
    connection: psycopg.Connection, database_url: str
) -> None:
    """No other session writes to finished rows, so the requeue works on a busy queue, too, and the tasks run again."""
    connection.execute(FILL)

    with four_workers(connection, database_url) as counts:
        while counts[None] < 2_000:
            assert {None} == set(counts)
        back = connection.execute(
            "UPDATE orchestrator.tasks SET status = 'pending' WHERE status = 'completed'"
        )

    assert back.rowcount >= 2_000
    assert {None} == set(counts)


def test_a_missing_leaf_is_explained(connection: psycopg.Connection) -> None:
    """The statement in the HINT makes it, and then the UPDATE works. cancel() makes it by itself."""
    first, second = put(connection), put(connection)
    leaf = one(connection, "SELECT 'orchestrator.' || orchestrator.ensure_partition()")
    cancel = "UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %s"
    connection.execute(f"DROP TABLE {leaf}".encode())

    diagnostic = refusal(connection, cancel, [first])

    assert ("23514", f"task {first} cannot be moved: tasks_done has no leaf for today") == (
        diagnostic.sqlstate,
        diagnostic.message_primary,
    )
    connection.execute((diagnostic.message_hint or "").partition(" makes it")[0].encode())
    connection.execute(cancel, [first])
    assert leaf == read(connection, first, "tableoid::regclass::text")
    connection.execute(f"DROP TABLE {leaf}".encode())
    assert one(connection, "SELECT orchestrator.cancel(%s)", [second])


def test_a_leaf_is_made_once_by_many(connection: psycopg.Connection, database_url: str) -> None:
    """Eight sessions make the same fifteen days in different orders: no error, no deadlock, each day once."""

    def make(number: int) -> None:
        with psycopg.connect(database_url, autocommit=True) as own:
            for n in range(15):
                day = f"2030-01-{(n + number) % 15 + 1:02}"
                assert day.replace("-", "") in one(own, "SELECT orchestrator.ensure_partition(%s)", [day])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(make, range(8)))

    attached = "SELECT count(*) FROM pg_inherits WHERE inhrelid::regclass::text LIKE '%tasks_done_203001%'"
    assert 15 == one(connection, attached)


def test_the_creation_of_a_leaf_blocks_no_finish(connection: psycopg.Connection, database_url: str) -> None:
    """And an open finish does not block the creation of a leaf."""
    with psycopg.connect(database_url) as maker, psycopg.connect(database_url) as finisher:
        connection.execute("SET lock_timeout = '2s'")
        maker.execute("SET lock_timeout = '2s'")
        put(finisher, "completed")
        maker.execute("SELECT orchestrator.ensure_partition('2030-01-01')")

        task_id = put(connection, "completed")

        assert "completed" == read(connection, task_id, "status")


@pytest.mark.parametrize("day", ["1969-12-31", "9000-01-02", "infinity"])
def test_an_impossible_day_has_no_leaf(connection: psycopg.Connection, day: str) -> None:
    """A mistyped year must not leave a leaf for ever."""
    assert "OR006" == refusal(connection, "SELECT orchestrator.ensure_partition(%s)", [day]).sqlstate


@pytest.mark.filterwarnings("ignore::Warning")
def test_a_publication_of_all_tables_breaks_nothing(connection: psycopg.Connection) -> None:
    """Every written table has a replica identity: for claims, finishes and manual changes."""
    connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    worker_id = sleeping_worker(connection, "default")
    task_ids = [one(connection, "SELECT orchestrator.enqueue('mail', key => %s)", [str(n)]) for n in range(3)]

    assert 3 == claim_and_finish(connection, worker_id)
    for task_id in task_ids:
        connection.execute("SELECT orchestrator.requeue(%s)", [task_id])
    connection.execute("UPDATE orchestrator.tasks SET priority = 75 WHERE id = %s", [task_ids[0]])
    connection.execute("SELECT orchestrator.cancel(%s)", [task_ids[0]])
    connection.execute("DELETE FROM orchestrator.tasks")
    connection.execute("SELECT orchestrator.pause_queue('default')")
    connection.execute("UPDATE orchestrator.settings SET payload_bytes_max = 1000")
    connection.execute("DELETE FROM orchestrator.audit")
    connection.execute("DELETE FROM orchestrator.workers")

    assert 0 == one(connection, "SELECT count(*) FROM orchestrator.idempotency_keys")
