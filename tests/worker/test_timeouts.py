"""Handlers that take too long: cancelled, abandoned, informed; and a TimeoutError of their own."""

import asyncio
import threading
import time
from datetime import timedelta

import psycopg
import pytest

from orchestrator import Context, Orchestrator, events
from tests.worker.running import attempts, recorded, run_until_empty, status, task


def test_an_async_handler_that_takes_too_long_is_cancelled(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """A timeout is a failure like others, with its own name."""
    cancelled: list[bool] = []

    @app.task(name="slow", timeout=0.1, max_attempts=1)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    enqueued = slow.enqueue()
    run_until_empty(app)

    row = task(connection, enqueued.id)
    assert ("dead_letter", "Timeout") == (row.status, row.error["class"])
    assert "no result within 0.1 s" == row.error["message"]
    assert [True] == cancelled
    assert [(1, "timeout")] == attempts(connection, enqueued.id)


def test_a_def_handler_that_ignores_its_timeout_costs_no_slot(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """With one slot, the next task runs while the old thread goes on. The handler can see that its attempt is over."""
    let_go = threading.Event()
    seen: list[bool] = []

    @app.task(name="stuck", timeout=0.1, max_attempts=1)
    def stuck(context: Context) -> None:
        let_go.wait(30)
        seen.append(context.cancelled)

    @app.task(name="next")
    def following() -> str:
        return "ran"

    first, second = stuck.enqueue(), following.enqueue()
    with recorded(events.HandlerAbandoned) as abandoned:
        run_until_empty(app, concurrency=1)

    assert [] == seen
    let_go.set()
    assert [events.HandlerAbandoned(first.id, "stuck")] == abandoned
    assert ("dead_letter", "Timeout") == (
        status(connection, first.id),
        task(connection, first.id).error["class"],
    )
    assert "ran" == task(connection, second.id).result
    deadline = time.monotonic() + 10
    while not seen and time.monotonic() < deadline:
        threading.Event().wait(0.005)
    assert [True] == seen


@pytest.mark.parametrize("colour", ["async", "def"])
def test_a_handlers_own_timeout_error_is_an_ordinary_failure(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """It is an error of the handler, and keeps its class, its message and its frames."""

    def ask() -> None:
        raise TimeoutError("the mail server did not answer")

    async def ask_on_loop() -> None:
        ask()

    declared = app.task(name="ask", max_attempts=1, timeout=20)(ask_on_loop if colour == "async" else ask)
    enqueued = declared.enqueue()
    run_until_empty(app)

    row = task(connection, enqueued.id)
    assert ("TimeoutError", "the mail server did not answer") == (row.error["class"], row.error["message"])
    assert [(1, "failed")] == attempts(connection, enqueued.id)


def test_no_timeout_is_no_timeout(app: Orchestrator, connection: psycopg.Connection) -> None:
    """timeout=0 means no limit."""

    @app.task(name="patient", timeout=0)
    async def patient() -> str:
        await asyncio.sleep(0.05)
        return "done"

    enqueued = patient.enqueue()
    run_until_empty(app)

    assert "done" == task(connection, enqueued.id).result
    assert timedelta(0) == task(connection, enqueued.id).timeout
