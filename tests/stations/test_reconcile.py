"""Reconciling: a claim whose answer was lost leaves tasks with a worker that does not know of them."""

from collections.abc import Callable

import psycopg

from tests.clock import Clock
from tests.schema.rows import put, read
from tests.stations.worker import Mate


def test_an_own_task_that_is_not_held_goes_back(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """Uncharged, in its old place, ready at once."""
    task_id = put(connection, attempt=2)
    before = read(connection, task_id, "position", "run_at")
    worker.claim()

    assert [task_id] == worker.reconcile()

    columns = read(connection, task_id, "status", "attempt", "lease", "worker_id")
    assert ("pending", 2, None, None) == columns
    assert before == read(connection, task_id, "position", "run_at")


def test_a_held_task_stays(connection: psycopg.Connection, worker: Mate) -> None:
    """Claimed or running. The outbox's tasks count as held, so the caller names them, too."""
    for _ in range(3):
        put(connection)
    claimed, running, ghost = worker.claim()
    worker.begin([running])

    assert [ghost.id] == worker.reconcile([claimed, running])

    assert "claimed" == read(connection, claimed.id, "status")
    assert "running" == read(connection, running.id, "status")


def test_a_task_held_under_an_older_lease_is_a_ghost(connection: psycopg.Connection, worker: Mate) -> None:
    """Requeued manually and claimed again by the same worker without its knowledge: its lease is another one."""
    put(connection)
    task = worker.claim_one()
    older = task._replace(lease=task.lease ^ 1)

    assert [task.id] == worker.reconcile([older])


def test_another_workers_tasks_are_not_mine(
    connection: psycopg.Connection, worker: Mate, hire: Callable[[], Mate]
) -> None:
    """A worker reconciles only its own tasks."""
    put(connection)
    task = hire().claim_one()

    assert [] == worker.reconcile()
    assert "claimed" == read(connection, task.id, "status")
