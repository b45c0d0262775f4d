"""Sweeping: a due task is freed, once, in its old place."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg

from orchestrator.claim import SWEEP_BATCH_SIZE, Swept
from tests.clock import Clock
from tests.schema.rows import insert, one, put, read
from tests.stations.worker import Mate


def test_only_due_tasks_are_freed(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """To the microsecond: the exact time is due."""
    moments = [clock.now + timedelta(microseconds=n) for n in (-1, 0, 1)]
    tasks = [put(connection, "scheduled", run_at=moment) for moment in moments]

    swept = worker.sweep()

    assert (2, ("default",)) == (swept.moved, swept.queues)
    assert ["pending", "pending", "scheduled"] == [read(connection, task, "status") for task in tasks]


def test_a_freed_task_keeps_its_place(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """It has waited since its run_at, not since the sweep: tasks that became ready in between come after it."""
    due = insert(connection, type="mail", run_at=clock.now + timedelta(seconds=10))
    before = read(connection, due, "run_at", "position")
    clock.advance(seconds=20)
    ready = insert(connection, type="mail")

    worker.sweep()

    assert before == read(connection, due, "run_at", "position")
    assert [due, ready] == [task.id for task in worker.claim()]


def test_a_sweep_is_bounded(connection: psycopg.Connection, worker: Mate) -> None:
    """With any number of due tasks, one sweep takes a batch, the earliest first."""
    schedule(connection, SWEEP_BATCH_SIZE + 5)

    assert SWEEP_BATCH_SIZE == worker.sweep().moved
    assert 5 == one(connection, "SELECT count(*) FROM orchestrator.tasks_live WHERE status = 'scheduled'")
    assert one(
        connection,
        "SELECT min(run_at) FILTER (WHERE status = 'scheduled') > max(run_at) FILTER (WHERE status = 'pending')"
        " FROM orchestrator.tasks_live",
    )
    assert 5 == worker.sweep().moved


def test_sweeps_at_once_free_each_task_once(connection: psycopg.Connection, hire: Callable[[], Mate]) -> None:
    """Every worker sweeps; together they free all tasks."""
    count = 4 * SWEEP_BATCH_SIZE
    schedule(connection, count)
    mates = [hire() for _ in range(4)]

    with ThreadPoolExecutor(len(mates)) as pool:
        moved = sum(pool.map(sweep_all, mates))

    assert count == moved
    assert count == one(connection, "SELECT count(*) FROM orchestrator.tasks_live WHERE status = 'pending'")


def sweep_all(worker: Mate) -> int:
    """Sweep until nothing is due; ends with the tasks."""
    moved = 0
    while swept := worker.sweep().moved:
        moved += swept
    return moved


def test_a_sweep_returns_when_the_next_one_is_useful(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """The seconds until the next task is due; nothing if no task waits."""
    assert Swept(0, (), None, ready=False) == worker.sweep()
    for seconds in (90.5, 7.25, 30):
        put(connection, "scheduled", run_at=clock.now + timedelta(seconds=seconds))

    assert Swept(0, (), 7.25, ready=False) == worker.sweep()

    clock.advance(seconds=7.25)
    assert Swept(1, ("default",), 22.75, ready=True) == worker.sweep()


def test_a_locked_task_is_left_for_the_next_sweep(
    connection: psycopg.Connection, database_url: str, worker: Mate, clock: Clock
) -> None:
    """A manual change that delays a task just when it is due wins."""
    task = put(connection, "scheduled", run_at=clock.now)
    later = clock.now + timedelta(hours=1)
    with psycopg.connect(database_url) as operator:
        operator.execute("UPDATE orchestrator.tasks SET run_at = %s WHERE id = %s", [later, task])
        assert 0 == worker.sweep().moved

    assert 0 == worker.sweep().moved
    assert ("scheduled", later) == read(connection, task, "status", "run_at")


def test_a_manual_run_now_sets_run_at(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """Unlike a sweep: the task gets its place in the order now."""
    task = put(connection, "scheduled", run_at=clock.now + timedelta(hours=1))

    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [task])

    assert ("pending", clock.now) == read(connection, task, "status", "run_at")
    assert task == worker.claim_one().id


def schedule(connection: psycopg.Connection, count: int) -> None:
    """Make this number of due tasks, each with another time."""
    connection.execute(
        "INSERT INTO orchestrator.tasks (id, type, queue, priority, max_attempts, timeout, aging_us, run_at, status)"
        " SELECT nextval('orchestrator.tasks_id_seq'),"
        " 'mail', 'default', 50, 4, '5 minutes', 0, now() - n * interval '1 second', 'scheduled'"
        " FROM generate_series(1, %s) AS n",
        [count],
    )
