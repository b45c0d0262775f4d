"""Finishing: the whole row after each end, and the refusal of a lost lease."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from psycopg import errors

from orchestrator.task.outcome import (
    Cancelled,
    Completed,
    DeadLettered,
    End,
    Failed,
    Fault,
    Outcome,
    PutBack,
    Released,
    Snoozed,
)
from tests.clock import Clock
from tests.patience import eventually
from tests.schema.rows import one, put, read, rings, sleeping_worker
from tests.stations.rows import attempts, changes, row
from tests.stations.worker import Mate

FAULT = Fault("ValueError", "no such user", "Traceback …")
ERROR = {"class": "ValueError", "message": "no such user", "traceback": "Traceback …"}
ENDS: list[End] = [
    Completed('{"sent": 1}'),
    Failed(FAULT, "failed", 60),
    DeadLettered(FAULT, "failed"),
    Cancelled("unsubscribed"),
    Snoozed(60),
    PutBack(FAULT, 5, 1),
    Released(),
]
# Their record outlives the answer: a row that keeps the lease.
RECORDED_ENDS = [end for end in ENDS if not isinstance(end, Snoozed | PutBack | Released)]


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"


def name(end: End) -> str:
    return type(end).__name__


def finish(connection: psycopg.Connection, worker: Mate, clock: Clock, end: End) -> tuple[object, ...]:
    """Run a task to this end, its second attempt; return what changed in the row, and the attempts recorded."""
    put(connection, attempt=1, max_attempts=3)
    task = worker.take_one()
    before = row(connection, task.id)
    clock.advance(seconds=5)

    assert worker.finish(task, end)

    started_at = before["started_at"]
    record = {"attempt": 2, "queue": "default", "type": "mail", "lease": task.lease, "worker_id": worker.id}
    record |= {"started_at": started_at, "finished_at": clock.now, "error": ERROR}
    recorded = attempts(connection, task.id)
    assert all(record | {"outcome": one["outcome"]} == one for one in recorded)
    return changes(before, row(connection, task.id)), [one["outcome"] for one in recorded]


def test_a_success(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """The row moves with all it holds, lease and worker too; success is no row in attempts."""
    changed = finish(connection, worker, clock, Completed('{"sent": 1}'))

    assert ({"status": "completed", "finished_at": clock.now, "result": {"sent": 1}}, []) == changed


def test_a_success_without_a_result(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """No result is SQL's NULL, not JSON's."""
    changed = finish(connection, worker, clock, Completed(None))

    assert ({"status": "completed", "finished_at": clock.now}, []) == changed


@pytest.mark.parametrize("kind", ["failed", "timeout"])
def test_a_failure_waits_for_its_retry(
    connection: psycopg.Connection, worker: Mate, clock: Clock, kind: str
) -> None:
    """Charged, in its new place, with its error, free for anybody; and one row in attempts."""
    changed = finish(connection, worker, clock, Failed(FAULT, kind, 60))  # type: ignore[arg-type] # parametrized

    waiting = {"status": "scheduled", "run_at": clock.now + timedelta(seconds=60)}
    assert ({**waiting, "error": ERROR, "lease": None, "worker_id": None}, [kind]) == changed


def test_a_failure_without_a_delay_is_ready_at_once(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """At the end of the queue, not in its old place: others come first."""
    changed = finish(connection, worker, clock, Failed(FAULT, "failed", 0))

    ready = {"status": "pending", "run_at": clock.now}
    assert ({**ready, "error": ERROR, "lease": None, "worker_id": None}, ["failed"]) == changed


@pytest.mark.parametrize("kind", ["failed", "timeout", "discarded"])
def test_a_burial(connection: psycopg.Connection, worker: Mate, clock: Clock, kind: str) -> None:
    """A dead letter tells its error, and attempts tell how it came to it."""
    changed = finish(connection, worker, clock, DeadLettered(FAULT, kind))  # type: ignore[arg-type] # parametrized

    assert ({"status": "dead_letter", "finished_at": clock.now, "error": ERROR}, [kind]) == changed


def test_a_cancellation(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """Not a failure: the reason stands on the task, and nothing in attempts."""
    changed = finish(connection, worker, clock, Cancelled("unsubscribed"))

    reason = {"class": "Cancelled", "message": "unsubscribed", "traceback": ""}
    assert ({"status": "cancelled", "finished_at": clock.now, "error": reason}, []) == changed


def test_a_snooze(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """Later, uncharged."""
    changed = finish(connection, worker, clock, Snoozed(60))

    waiting = {"status": "scheduled", "run_at": clock.now + timedelta(seconds=60), "attempt": 1}
    assert ({**waiting, "lease": None, "worker_id": None}, []) == changed


def test_a_task_put_back(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """Of an unknown type: later, uncharged, visibly; the next claim knows how often that was."""
    changed = finish(connection, worker, clock, PutBack(FAULT, 5, 3))

    waiting = {"status": "scheduled", "run_at": clock.now + timedelta(seconds=5), "attempt": 1}
    assert ({**waiting, "error": {**ERROR, "put_back": 3}, "lease": None, "worker_id": None}, []) == changed
    clock.advance(seconds=5)
    worker.sweep()
    assert 3 == worker.claim_one().put_back


def test_a_release(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """Given back unfinished: uncharged, ready at once, in its old place."""
    changed = finish(connection, worker, clock, Released())

    assert ({"status": "pending", "attempt": 1, "lease": None, "worker_id": None}, []) == changed


def test_a_success_on_the_second_try_clears_the_error(connection: psycopg.Connection, worker: Mate) -> None:
    """What went wrong before is told by attempts alone."""
    put(connection)
    worker.finish(worker.take_one(), Failed(FAULT, "failed", 0))

    again = worker.take_one()
    assert worker.finish(again, Completed("2"))

    assert ("completed", 2, 2, None) == read(connection, again.id, "status", "attempt", "result", "error")
    assert ["failed"] == [one["outcome"] for one in attempts(connection, again.id)]


@pytest.mark.parametrize("end", [Snoozed(0), Released()], ids=name)
def test_an_end_that_is_no_failure_keeps_the_last_error(
    connection: psycopg.Connection, worker: Mate, end: End
) -> None:
    """What waits for its third try tells what was wrong with the first, whatever came between."""
    put(connection)
    worker.finish(worker.take_one(), Failed(FAULT, "failed", 0))

    again = worker.take_one()
    assert worker.finish(again, end)

    assert ("pending", 1, ERROR) == read(connection, again.id, "status", "attempt", "error")


@pytest.mark.parametrize("end", ENDS, ids=name)
def test_a_task_claimed_again_is_not_finished_by_its_first_worker(
    connection: psycopg.Connection, worker: Mate, hire: Callable[[], Mate], end: End
) -> None:
    """Its outcome changes nothing, whichever it is, and it is told so."""
    put(connection)
    first = worker.take_one()
    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [first.id])
    hire().take_one()
    before = row(connection, first.id)

    assert not worker.finish(first, end)
    assert not worker.has_written(first, end)

    assert before == row(connection, first.id)
    # That it ran was put on record when it was requeued, and is not changed by what it says.
    assert [("lost", worker.id)] == [(r["outcome"], r["worker_id"]) for r in attempts(connection, first.id)]


def test_a_task_claimed_again_is_not_reported_on_by_its_first_worker(
    connection: psycopg.Connection, worker: Mate, hire: Callable[[], Mate]
) -> None:
    """How far the second has come is the second's to say."""
    put(connection)
    first = worker.take_one()
    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [first.id])
    second = hire()
    second.report(second.take_one(), "0.25")

    worker.report(first, "0.75")

    assert 0.25 == read(connection, first.id, "progress")


@pytest.mark.parametrize(
    ("end", "rung"), [(Released(), ["default"]), (Snoozed(0), ["default"]), (Snoozed(9), [])]
)
def test_a_task_that_is_ready_again_at_once_wakes_an_idle_worker(
    connection: psycopg.Connection, worker: Mate, end: End, rung: list[str]
) -> None:
    """The worker that gives it back may be about to end. For a task with a delay, a sweep wakes the workers."""
    put(connection)
    task = worker.take_one()
    sleeping_worker(connection, "default", "other")
    connection.execute("LISTEN orchestrator")

    assert worker.finish(task, end)

    assert rung == rings(connection)


@pytest.mark.parametrize("end", ENDS, ids=name)
def test_a_lease_ends_with_the_first_outcome(connection: psycopg.Connection, worker: Mate, end: End) -> None:
    """Sent twice, an outcome is written once."""
    put(connection)
    task = worker.take_one()
    assert worker.finish(task, end)
    before, recorded = row(connection, task.id), attempts(connection, task.id)

    assert not worker.finish(task, end)

    assert (before, recorded) == (row(connection, task.id), attempts(connection, task.id))


@pytest.mark.parametrize("end", RECORDED_ENDS, ids=name)
def test_an_outcome_sent_twice_is_known_as_the_same(
    connection: psycopg.Connection, worker: Mate, end: End
) -> None:
    """After a lost answer the repetition is refused, and must not count as stale."""
    put(connection)
    task = worker.take_one()
    assert not worker.has_written(task, end)

    worker.finish(task, end)

    assert worker.has_written(task, end)


def test_ends_of_one_batch_do_not_mix(connection: psycopg.Connection, worker: Mate) -> None:
    """Each outcome finds its own row, in any order."""
    for _ in ENDS:
        put(connection)
    tasks = worker.begin(worker.claim())
    ends = dict(zip((task.id for task in tasks), ENDS, strict=True))
    outcomes = [Outcome(task, ends[task.id]) for task in reversed(tasks)]

    accepted, left = worker.finish_unlocked(outcomes)

    assert (set(ends), []) == (accepted, left)
    statuses = ["completed", "scheduled", "dead_letter", "cancelled", "scheduled", "scheduled", "pending"]
    assert statuses == [read(connection, task.id, "status") for task in tasks]


@pytest.mark.parametrize("behind_locks", [False, True])
def test_a_missing_leaf_is_made(
    connection: psycopg.Connection, worker: Mate, clock: Clock, behind_locks: bool
) -> None:
    """If the leader is late with the leaf, the finish makes it and loses nothing."""
    put(connection)
    task = worker.take_one()
    clock.advance(days=30)
    leaf = f"orchestrator.tasks_done_{clock.now:%Y%m%d}"
    assert None is one(connection, "SELECT to_regclass(%s)", [leaf])

    if behind_locks:
        assert ({task.id}, []) == worker.finish_unlocked([Outcome(task, Completed(None))])
    else:
        assert worker.finish(task, Completed(None))

    assert 1 == one(connection, f"SELECT count(*) FROM {leaf}")  # noqa: S608 - a date


def test_a_batch_waits_for_a_lock_a_moment_only(
    connection: psycopg.Connection, database_url: str, worker: Mate
) -> None:
    """Then it is refused as a whole. With skip-locked the free rows are written and the locked ones returned."""
    for _ in range(2):
        put(connection)
    locked, free = worker.begin(worker.claim())
    with psycopg.connect(database_url) as operator:
        operator.execute("UPDATE orchestrator.tasks SET priority = 80 WHERE id = %s", [locked.id])
        with pytest.raises(errors.LockNotAvailable):
            worker.finish(locked, Completed(None))
        outcomes = [Outcome(task, Completed(None)) for task in (locked, free)]
        assert ({free.id}, outcomes[:1]) == worker.finish_unlocked(outcomes)

    assert ({locked.id}, []) == worker.finish_unlocked(outcomes[:1])
    assert ("completed", 80) == read(connection, locked.id, "status", "priority")


@pytest.mark.parametrize(
    "end", [Completed(None), Failed(FAULT, "failed", 1), DeadLettered(FAULT, "failed")], ids=name
)
def test_a_batch_locks_its_tasks_in_the_order_of_their_ids(
    connection: psycopg.Connection, database_url: str, worker: Mate, end: End
) -> None:
    """In any order of their ends. All other statements do the same, so two of them cannot deadlock."""
    for _ in range(3):
        put(connection)
    first, second, third = worker.begin(worker.claim())
    worker.call(lambda c: c.execute("SET lock_timeout = '60s'"))
    locks = "SELECT FROM orchestrator.tasks_live WHERE id = ANY (%s) FOR UPDATE NOWAIT"

    with psycopg.connect(database_url) as operator, ThreadPoolExecutor(1) as threads:
        operator.execute(locks, [[first.id]])
        outcomes = [Outcome(task, end) for task in (third, second, first)]
        written = threads.submit(worker.finish_all, outcomes)
        eventually(lambda: one(connection, WAITING, [operator.info.backend_pid]) == 1, "the batch waits")
        operator.execute(locks, [[second.id, third.id]])
        operator.commit()

        assert {first.id, second.id, third.id} == written.result(60)


def test_a_stale_outcome_counts_as_unlocked(connection: psycopg.Connection, worker: Mate) -> None:
    """No lock keeps it out; the worker must learn that it is too late."""
    put(connection)
    task = worker.take_one()
    connection.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [task.id])

    assert (set(), []) == worker.finish_unlocked([Outcome(task, Completed(None))])


def test_a_publication_for_all_tables_breaks_nothing(connection: psycopg.Connection, worker: Mate) -> None:
    """Every table in which tasks change has a replica identity."""
    connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    for _ in ENDS:
        put(connection)

    for task, end in zip(worker.begin(worker.claim()), ENDS, strict=True):
        assert worker.finish(task, end)
