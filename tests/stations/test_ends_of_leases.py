"""Seven ways in which a lease ends. Each returns the permits of the lease, and counts the task's end for its gates."""

from collections.abc import Callable
from typing import LiteralString

import psycopg
import pytest

from orchestrator import finish
from orchestrator.finish.lease_ends import NO_ENDS, lease_ends
from orchestrator.finish.record import Written
from orchestrator.maintain import recover, timeouts
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import (
    Cancelled,
    Completed,
    DeadLettered,
    End,
    Failed,
    Fault,
    Outcome,
    Released,
)
from tests.clock import Clock
from tests.maintain.rounds import do
from tests.schema.rows import one, put
from tests.stations.worker import Mate

FAULT = Fault("ValueError", "no such user", "Traceback …")
HOLD: LiteralString = "UPDATE orchestrator.tasks_live SET holds = '{7, 8}', gates = '{9}' WHERE id = %s"
REQUEUE: LiteralString = "UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s"
CANCEL: LiteralString = "UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %s"
DELETE: LiteralString = "DELETE FROM orchestrator.tasks WHERE id = %s"

# What is written of the gates: ended, failed, lost.
WAITS = None
SUCCEEDED = (1, 0, 0)
FAILED = (1, 1, 0)
DELETED = (1, 1, 1)

Way = Callable[[psycopg.Connection, Mate, Clock, Claimed], None]


def by_outcome(end: End) -> Way:
    def finished(_: psycopg.Connection, worker: Mate, _clock: Clock, task: Claimed) -> None:
        assert worker.finish(task, end)

    return finished


def within_a_transaction(connection: psycopg.Connection, _: Mate, _clock: Clock, task: Claimed) -> None:
    with connection.transaction():
        steps = finish.complete_within(Outcome(task, Completed(None)), None)
        assert finish.take(connection, steps) is not None


def by_recovery(connection: psycopg.Connection, worker: Mate, clock: Clock, _: Claimed) -> None:
    clock.advance(seconds=31)
    recover(connection)


def by_timeout(connection: psycopg.Connection, _: Mate, clock: Clock, _task: Claimed) -> None:
    clock.advance(seconds=400)
    connection.execute("UPDATE orchestrator.workers SET beat_at = orchestrator.clock()")
    do(connection, timeouts)


def manually(statement: LiteralString) -> Way:
    def done(connection: psycopg.Connection, _: Mate, _clock: Clock, task: Claimed) -> None:
        connection.execute(statement, [task.id])

    return done


def in_a_copy(connection: psycopg.Connection, _: Mate, _clock: Clock, _task: Claimed) -> None:
    connection.execute("SELECT orchestrator.hold_after_restore()")
    connection.execute("SELECT orchestrator.resume_after_restore()")


@pytest.mark.parametrize(
    ("way", "max_attempts", "change"),
    [
        pytest.param(by_outcome(Completed("1")), 4, SUCCEEDED, id="completed"),
        pytest.param(by_outcome(Failed(FAULT, "failed", 60)), 4, WAITS, id="retried"),
        pytest.param(by_outcome(Released()), 4, WAITS, id="released"),
        pytest.param(by_outcome(Cancelled("unsubscribed")), 4, FAILED, id="cancelled"),
        pytest.param(by_outcome(DeadLettered(FAULT, "failed")), 4, FAILED, id="dead letter"),
        pytest.param(within_a_transaction, 4, SUCCEEDED, id="within the handler's transaction"),
        pytest.param(by_recovery, 4, WAITS, id="recovered"),
        pytest.param(by_timeout, 4, WAITS, id="timed out"),
        pytest.param(by_timeout, 1, FAILED, id="timed out for the last time"),
        pytest.param(manually(REQUEUE), 4, WAITS, id="requeued"),
        pytest.param(manually(CANCEL), 4, FAILED, id="cancelled manually"),
        pytest.param(manually(DELETE), 4, DELETED, id="deleted"),
        pytest.param(in_a_copy, 4, WAITS, id="resumed in a copy"),
    ],
)  # fmt: skip
def test_each_end_of_a_lease_gives_back_what_it_held(
    connection: psycopg.Connection,
    worker: Mate,
    clock: Clock,
    way: Way,
    max_attempts: int,
    change: tuple[int, int, int] | None,
) -> None:
    """Each permit once. The gates hear of it only where the task has ended."""
    put(connection, max_attempts=max_attempts)
    task = worker.take_one()
    connection.execute(HOLD, [task.id])

    way(connection, worker, clock, task)

    assert [(7, 1), (8, 1)] == returned(connection)
    assert ([] if change is None else [(9, *change)]) == changes(connection)


@pytest.mark.parametrize(
    ("end", "gates"),
    [
        (Completed("1"), {9}),
        (DeadLettered(FAULT, "failed"), {9}),
        (Failed(FAULT, "failed", 60), set()),
        (Released(), set()),
    ],
)
def test_a_worker_learns_which_keys_its_own_ends_have_written(
    connection: psycopg.Connection, worker: Mate, end: End, gates: set[int]
) -> None:
    """Of plain tasks none, of others the rows of this very statement."""
    plain, other = put(connection), put(connection)
    tasks = worker.begin(worker.claim())
    connection.execute(HOLD, [other])

    ends = {task.id: worker.record([Outcome(task, end)]).ends for task in tasks}

    assert NO_ENDS == ends[plain]
    assert lease_ends([7, 8], gates) == ends[other]
    assert {7, 8} == {hold for hold, _ in returned(connection)}
    assert gates == {gate for gate, *_ in changes(connection)}


def test_a_mixed_batch_is_told_as_one(connection: psycopg.Connection, worker: Mate) -> None:
    """Successes and others, in one transaction."""
    first, second = put(connection), put(connection)
    tasks = worker.begin(worker.claim())
    connection.execute(
        "UPDATE orchestrator.tasks_live SET holds = ARRAY[id], gates = '{}' WHERE id = ANY (%s)",
        [[first, second]],
    )

    written = worker.record([Outcome(tasks[0], Completed(None)), Outcome(tasks[1], Released())])

    assert Written(set(), lease_ends([first, second])) == written


def test_a_handlers_own_transaction_learns_them_before_its_commit(
    connection: psycopg.Connection, worker: Mate
) -> None:
    """None: its lease is void."""
    put(connection)
    task = worker.take_one()
    connection.execute(HOLD, [task.id])

    with connection.transaction():
        steps = finish.complete_within(Outcome(task, Completed(None)), None)
        assert lease_ends([7, 8], [9]) == finish.take(connection, steps)
    with connection.transaction():
        again = finish.complete_within(Outcome(task, Completed(None)), None)
        assert None is finish.take(connection, again)


def test_a_batch_writes_one_row_for_each_key(connection: psycopg.Connection, worker: Mate) -> None:
    """However many tasks share a permit or a gate."""
    for _ in range(5):
        put(connection)
    tasks = worker.begin(worker.claim())
    connection.execute("UPDATE orchestrator.tasks_live SET holds = '{7}', gates = ARRAY[9, 10 + id % 2]")

    accepted = worker.finish_all([Outcome(task, Completed(None)) for task in tasks])

    assert {task.id for task in tasks} == accepted
    assert [(7, 5)] == returned(connection)
    assert [9, 10, 11] == [gate for gate, *_ in changes(connection)]
    assert 5 == changes(connection)[0][1]


def test_plain_tasks_and_others_of_one_batch_are_all_accepted(
    connection: psycopg.Connection, worker: Mate
) -> None:
    """Those that are stale are refused; the plain ones write nothing but themselves."""
    ids = [put(connection) for _ in range(3)]
    tasks = worker.begin(worker.claim())
    connection.execute(
        "UPDATE orchestrator.tasks_live SET holds = '{}', gates = '{9}', tenant = 'acme' WHERE id = %s",
        [ids[1]],
    )
    connection.execute("UPDATE orchestrator.tasks_live SET lease = 1 WHERE id = %s", [ids[2]])

    accepted = worker.finish_all([Outcome(task, Completed(None)) for task in tasks])

    assert set(ids[:2]) == accepted
    assert [(9, *SUCCEEDED)] == changes(connection)
    assert "acme" == one(connection, "SELECT tenant FROM orchestrator.tasks WHERE id = %s", [ids[1]])


@pytest.mark.parametrize(
    ("before", "statement", "change"),
    [
        ("dead_letter", REQUEUE, (-1, -1, 0)),
        ("completed", REQUEUE, (-1, 0, 0)),
        ("pending", CANCEL, FAILED),
        ("pending", DELETE, DELETED),
        ("dead_letter", DELETE, (0, 0, 1)),
    ],
)
def test_a_manual_change_counts_for_the_gates_and_returns_no_permit(
    connection: psycopg.Connection, before: str, statement: LiteralString, change: tuple[int, int, int]
) -> None:
    """What holds no lease holds no permit, whatever an earlier attempt has left on its row."""
    task_id = put(connection, before, holds=[7, 8], gates=[9])

    connection.execute(statement, [task_id])

    assert [] == returned(connection)
    assert [(9, *change)] == changes(connection)


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        pytest.param(by_outcome(Completed(None)), [SUCCEEDED, (-1, 0, 0), SUCCEEDED], id="completed"),
        pytest.param(by_outcome(DeadLettered(FAULT, "failed")), [FAILED, (-1, -1, 0), SUCCEEDED], id="dead letter"),
        pytest.param(manually(CANCEL), [FAILED, (-1, -1, 0), SUCCEEDED], id="cancelled manually"),
    ],
)  # fmt: skip
def test_a_requeued_task_counts_for_its_gates_at_its_next_end(
    connection: psycopg.Connection,
    worker: Mate,
    clock: Clock,
    way: Way,
    expected: list[tuple[int, int, int]],
) -> None:
    """It is no plain task, though its ended row holds nothing; and it gives back no permit a second time."""
    put(connection)
    task = worker.take_one()
    connection.execute(HOLD, [task.id])
    way(connection, worker, clock, task)
    connection.execute(REQUEUE, [task.id])

    assert worker.finish(worker.take_one(), Completed(None))

    assert [(9, *counts) for counts in expected] == changes(connection)
    assert [(7, 1), (8, 1)] == returned(connection)


def test_a_delete_of_a_completed_task_counts_for_no_gate(connection: psycopg.Connection) -> None:
    """It has passed its success on already."""
    task_id = put(connection, "completed", gates=[9])

    connection.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [task_id])

    assert [] == changes(connection)


def returned(connection: psycopg.Connection) -> list[tuple[int, int]]:
    return connection.execute(
        "SELECT hold, permits FROM orchestrator.permits_returned ORDER BY hold"
    ).fetchall()


def changes(connection: psycopg.Connection) -> list[tuple[int, int, int, int]]:
    return connection.execute(
        "SELECT gate, ended, failed, lost FROM orchestrator.gate_changes ORDER BY gate, id"
    ).fetchall()
