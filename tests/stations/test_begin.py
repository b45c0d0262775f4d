"""Beginning: which worker may start, and what is marked."""

import psycopg

from tests.clock import Clock
from tests.schema.rows import put, read
from tests.stations.worker import Mate


def test_begun_tasks_are_running(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """A task that a crash finds `claimed` has not begun, and gets its attempt back; so the mark is written first."""
    task_id = put(connection)
    task = worker.claim_one()
    clock.advance(seconds=3)

    assert [task] == worker.begin([task])

    assert ("running", clock.now, task.lease) == read(connection, task_id, "status", "started_at", "lease")


def test_beginning_twice_is_beginning_once(connection: psycopg.Connection, worker: Mate) -> None:
    """If the first answer was lost, the second is the same."""
    task_id = put(connection)
    task = worker.claim_one()

    assert [task] == worker.begin([task]) == worker.begin([task])
    assert ("running", 1) == read(connection, task_id, "status", "attempt")


def test_a_worker_that_lost_the_lease_may_not_begin(connection: psycopg.Connection, worker: Mate) -> None:
    """A requeue between claim and start, then a new claim: the old lease starts nothing."""
    tasks = {put(connection), put(connection)}
    first, second = worker.claim()
    assert tasks == {first.id, second.id}
    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [first.id])
    again = worker.claim_one()
    assert (first.id, True) == (again.id, first.lease != again.lease)

    assert [second] == worker.begin([first, second])

    assert ("claimed", again.lease, None) == read(connection, first.id, "status", "lease", "started_at")


def test_a_cancelled_or_deleted_task_does_not_begin(connection: psycopg.Connection, worker: Mate) -> None:
    """A manual change before the start wins."""
    for _ in range(3):
        put(connection)
    cancelled, deleted, left = worker.claim()
    connection.execute("UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %s", [cancelled.id])
    connection.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [deleted.id])

    assert [left] == worker.begin([cancelled, deleted, left])


def test_the_order_of_the_claim_is_kept(connection: psycopg.Connection, worker: Mate) -> None:
    """Locks are taken by id; the tasks are returned in the order of execution."""
    for priority in (10, 30, 20):
        put(connection, priority=priority, aging_us=10**15)
    tasks = worker.claim()

    assert [30, 20, 10] == [read(connection, task.id, "priority") for task in tasks]
    assert tasks == worker.begin(tasks)


def test_a_locked_row_delays_no_other(
    connection: psycopg.Connection, database_url: str, worker: Mate
) -> None:
    """An open manual UPDATE delays the start of its own row, and of no other."""
    put(connection)
    put(connection)
    locked, free = worker.claim()
    with psycopg.connect(database_url) as operator:
        operator.execute("SELECT FROM orchestrator.tasks WHERE id = %s FOR UPDATE", [locked.id])

        assert [free] == worker.begin([locked, free])

    assert [locked] == worker.begin([locked])
