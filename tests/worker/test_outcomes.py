"""The ends of attempts, through a real worker: a handler's result, exception or request, and the row after it."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from orchestrator import Cancel, Context, Discard, Orchestrator, Retry, Snooze, events
from orchestrator.task.backoff import Backoff
from tests.patience import PATIENCE_SECONDS
from tests.worker.running import (
    AT_ONCE,
    attempts,
    recorded,
    run_until_empty,
    status,
    task,
    until,
    value,
    working,
)


def test_an_async_handler_runs_on_the_loop(app: Orchestrator, connection: psycopg.Connection) -> None:
    """It may use objects of the loop, and its result is in the row."""

    @app.task(name="double")
    async def double(number: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"twice": 2 * number}

    enqueued = double.enqueue(number=21)
    run_until_empty(app)

    row = task(connection, enqueued.id)
    assert ("completed", {"twice": 42}, 1, None) == (row.status, row.result, row.attempt, row.error)
    assert row.created_at <= row.claimed_at <= row.started_at <= row.finished_at


def test_a_def_handler_runs_in_a_thread(app: Orchestrator, connection: psycopg.Connection) -> None:
    """It may block: the loop runs in another thread."""

    @app.task(name="where")
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    enqueued = where.enqueue()
    run_until_empty(app)

    assert ("completed", False) == (
        task(connection, enqueued.id).status,
        task(connection, enqueued.id).result,
    )


@pytest.mark.parametrize(
    "result", [None, 0, "text ☃", [1, [2.5]], {"a": {"b": None}}, False, 10**30], ids=repr
)
@pytest.mark.parametrize("colour", ["async", "def"])
def test_a_result_comes_back_equal(
    app: Orchestrator, connection: psycopg.Connection, result: object, colour: str
) -> None:
    """Any JSON value; None is SQL's NULL."""

    async def on_loop() -> object:
        return result

    def in_thread() -> object:
        return result

    returning = app.task(name="returning")(on_loop if colour == "async" else in_thread)
    enqueued = returning.enqueue()
    run_until_empty(app)

    row = task(connection, enqueued.id)
    assert ("completed", result) == (row.status, row.result)


def test_a_handler_gets_its_context(app: Orchestrator, connection: psycopg.Connection) -> None:
    """By annotation, with any name of the parameter. The lease is that of the row."""

    @app.task(name="who")
    async def who(number: int, me: Context) -> list[Any]:
        lease = value(connection, "SELECT lease FROM orchestrator.tasks WHERE id = %s", me.id)
        known = [me.type, me.queue, me.attempt, me.max_attempts, list(me.tags), dict(me.metadata)]
        return [number, *known, me.lease == lease]

    enqueued = who.using(tags=["urgent"], metadata={"tenant": 7}, max_attempts=3).enqueue(number=1)
    run_until_empty(app)

    assert [1, "who", "default", 1, 3, ["urgent"], {"tenant": 7}, True] == task(
        connection, enqueued.id
    ).result


@pytest.mark.parametrize("colour", ["async", "def"])
def test_success_on_the_second_try_clears_the_old_error(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """The failure stays on record among the attempts; the row shows only the success."""
    seen = []

    def shaky(context: Context) -> str:
        row = task(connection, context.id)
        seen.append((row.attempt, row.error and row.error["class"]))
        if context.attempt == 1:
            raise ConnectionError("the mail server is away")
        return "sent"

    async def shaky_on_loop(context: Context) -> str:
        return shaky(context)

    declared = app.task(name="shaky", backoff=AT_ONCE)(shaky_on_loop if colour == "async" else shaky)
    enqueued = declared.enqueue()
    with recorded(events.TaskFailed, events.TaskCompleted) as happened:
        run_until_empty(app)

    row = task(connection, enqueued.id)
    assert [(1, None), (2, "ConnectionError")] == seen
    assert ("completed", "sent", None, 2) == (row.status, row.result, row.error, row.attempt)
    assert [(1, "failed")] == attempts(connection, enqueued.id)
    assert [events.TaskFailed, events.TaskCompleted] == [type(event) for event in happened]


def test_an_event_has_the_worker_the_duration_and_the_trace(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """One event for each attempt, and one for the whole batch, with counts and times."""
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"

    @app.task(name="shaky", backoff=AT_ONCE)
    def shaky(context: Context) -> None:
        if context.attempt == 1:
            raise ConnectionError

    connection.execute(
        "INSERT INTO orchestrator.tasks (type, trace_context) VALUES ('shaky', %s)",
        [f'{{"traceparent": "00-{trace_id}-00f067aa0ba902b7-01"}}'],
    )
    kinds = (events.TaskFailed, events.TaskCompleted, events.TaskStarted)
    with recorded(*kinds) as seen, recorded(events.OutcomesWritten) as batches:
        run_until_empty(app)

    (worker_id,) = value(connection, "SELECT array_agg(id) FROM orchestrator.workers")
    assert [(worker_id, trace_id)] * 4 == [(event.worker_id, event.trace_id) for event in seen]
    # By kind: the second attempt may start before the worker learns that the failure of the first is written.
    failed, completed, *started = sorted(seen, key=lambda event: (kinds.index(type(event)), event.attempt))
    assert [events.TaskFailed, events.TaskCompleted] == [type(failed), type(completed)]
    assert [1, 2] == [event.attempt for event in started]
    assert 0 < failed.duration_seconds < PATIENCE_SECONDS
    assert 0 < completed.duration_seconds < PATIENCE_SECONDS
    assert [{"failed": 1}, {"completed": 1}] == [dict(batch.tallies[0].counts) for batch in batches]
    assert all(batch.worker_id == worker_id and batch.took_seconds > 0 for batch in batches)


def test_the_wait_before_a_retry_grows(app: Orchestrator, connection: psycopg.Connection) -> None:
    """By the type's policy: 0.1, 0.3, 0.9 s here."""

    @app.task(name="never", backoff=Backoff(base_seconds=0.1, factor=3, jitter=0))
    async def never() -> None:
        raise ValueError("no")

    with recorded(events.TaskFailed) as failures:
        enqueued = never.enqueue()
        run_until_empty(app)

    spans = connection.execute(
        "SELECT date_part('epoch', lead(started_at) OVER (ORDER BY id) - finished_at)"
        " FROM orchestrator.attempts WHERE task_id = %s ORDER BY id",
        [enqueued.id],
    ).fetchall()
    assert [0.1, 0.3, 0.9] == pytest.approx([failure.retry_after_seconds for failure in failures])
    for least, (span,) in zip([0.1, 0.3, 0.9], spans, strict=False):
        assert least <= span + 0.001 <= least + 0.5


def test_the_last_attempt_ends_as_a_dead_letter(app: Orchestrator, connection: psycopg.Connection) -> None:
    """With class, message and traceback, in the row and in the view; the traceback has the handler's frame."""

    @app.task(name="doomed", max_attempts=2, backoff=AT_ONCE)
    def doomed() -> None:
        raise LookupError("no such user ☠")

    enqueued = doomed.enqueue()
    run_until_empty(app)

    row = task(connection, enqueued.id)
    assert ("dead_letter", 2) == (row.status, row.attempt)
    assert ("LookupError", "no such user ☠") == (row.error["class"], row.error["message"])
    assert "in doomed" in row.error["traceback"]
    assert "orchestrator/execute" not in row.error["traceback"]
    assert [(1, "failed"), (2, "failed")] == attempts(connection, enqueued.id)
    assert 1 == value(connection, "SELECT count(*) FROM orchestrator.dead_letters WHERE id = %s", enqueued.id)


def test_retry_waits_for_the_given_time(app: Orchestrator, connection: psycopg.Connection) -> None:
    """Its own delay overrides the policy, and the attempt counts."""

    @app.task(name="later", backoff=Backoff(base_seconds=100, jitter=0))
    async def later(context: Context) -> float:
        if context.attempt == 1:
            raise Retry(timedelta(seconds=0.2), "the API said 429")
        return context.attempt

    enqueued = later.enqueue()
    with recorded(events.TaskFailed) as failures:
        run_until_empty(app)

    assert [("Retry", "the API said 429", 0.2)] == [
        (f.error_class, f.message, f.retry_after_seconds) for f in failures
    ]
    assert ("completed", 2) == (status(connection, enqueued.id), task(connection, enqueued.id).result)


def test_retry_without_a_delay_follows_the_policy(app: Orchestrator) -> None:
    """So a handler can fail without an error."""

    @app.task(name="again", max_attempts=2, backoff=Backoff(base_seconds=0.05, jitter=0))
    async def again() -> None:
        raise Retry

    again.enqueue()
    with recorded(events.TaskFailed) as failures:
        run_until_empty(app)

    assert [0.05] == [failure.retry_after_seconds for failure in failures]


async def test_a_snooze_costs_no_attempt(app: Orchestrator, connection: psycopg.Connection) -> None:
    """With one attempt allowed, the handler may run again and again, and each call is on record."""
    calls: list[int] = []

    @app.task(name="not-yet", max_attempts=1)
    async def not_yet(context: Context) -> int:
        calls.append(context.attempt)
        if len(calls) < 3:
            raise Snooze(0.05)
        return len(calls)

    async with working(app):
        enqueued = await not_yet.aenqueue()
        await until(lambda: status(connection, enqueued.id) == "completed", "the third call completes it")
    assert [(1, "snoozed")] * 2 == attempts(connection, enqueued.id)

    assert [1, 1, 1] == calls


def test_cancel_ends_the_task_as_cancelled(app: Orchestrator, connection: psycopg.Connection) -> None:
    """There is no dead letter and no further attempt; the reason is in the row."""

    @app.task(name="unwanted")
    def unwanted() -> None:
        raise Cancel("the user has left")

    enqueued = unwanted.enqueue()
    run_until_empty(app)

    row = task(connection, enqueued.id)
    assert ("cancelled", "the user has left", 1) == (row.status, row.error["message"], row.attempt)


def test_discard_makes_a_dead_letter_at_once(app: Orchestrator, connection: psycopg.Connection) -> None:
    """With any number of attempts left."""

    @app.task(name="hopeless", max_attempts=9)
    async def hopeless() -> None:
        raise Discard("the account is closed")

    enqueued = hopeless.enqueue()
    run_until_empty(app)

    row = task(connection, enqueued.id)
    assert ("dead_letter", 1) == (row.status, row.attempt)
    assert ("Discard", "the account is closed") == (row.error["class"], row.error["message"])


def test_a_dead_letter_requeued_runs_with_fresh_attempts(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """With one UPDATE. All attempts are available again, and the error is gone while it runs."""
    mended = False
    seen = []

    @app.task(name="mendable", max_attempts=2, backoff=AT_ONCE)
    async def mendable(context: Context) -> str:
        seen.append(context.attempt)
        if not mended:
            raise OSError("the disk is full")
        return "written"

    enqueued = mendable.enqueue()
    run_until_empty(app)
    assert "dead_letter" == status(connection, enqueued.id)

    mended = True
    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [enqueued.id])
    assert (0, None) == (task(connection, enqueued.id).attempt, task(connection, enqueued.id).error)
    run_until_empty(app)

    row = task(connection, enqueued.id)
    assert [1, 2, 1] == seen
    assert ("completed", "written", None) == (row.status, row.result, row.error)


def test_a_completed_task_is_not_cancelled_but_may_run_again(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """The cancel is refused with advice. A requeue with SQL runs it once more."""
    runs: list[int] = []

    @app.task(name="count")
    async def count() -> int:
        runs.append(1)
        return len(runs)

    enqueued = count.enqueue()
    run_until_empty(app)
    with pytest.raises(
        psycopg.Error, match="completed, and a manual change cannot make it cancelled"
    ) as refused:
        connection.execute("UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %s", [enqueued.id])
    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [enqueued.id])
    run_until_empty(app)

    assert "pending" in (refused.value.diag.message_hint or "")
    assert ("completed", 2) == (status(connection, enqueued.id), task(connection, enqueued.id).result)
