"""The context: cheap, read-only, and useful in its worker only."""

import asyncio
import pickle
import sys
import threading
from typing import Any

import psycopg
import pytest
import structlog

from orchestrator import Context, Orchestrator
from orchestrator.execute.context import of
from orchestrator.task.claimed import unknown
from tests.worker.ledger import both_colours
from tests.worker.running import run_until_empty, status

TASK = unknown(id=7, lease=5, queue="default", type="work", attempt=2)


def test_a_context_cannot_be_changed() -> None:
    """Neither its values nor by new attributes."""
    context = of(TASK)

    for name in ("id", "lease", "attempt", "tags", "cancelled", "something"):
        with pytest.raises(AttributeError):
            setattr(context, name, 1)


def test_a_context_costs_next_to_nothing() -> None:
    """There is one for each attempt of a handler with a context: a few objects (0.1 µs), and no events (2 µs)."""
    before = sys.getallocatedblocks()
    contexts = [of(TASK) for _ in range(1000)]
    blocks = (sys.getallocatedblocks() - before) / len(contexts)

    assert blocks < 4


def test_a_cancel_is_seen_by_every_thread_and_that_it_was_seen_is_known() -> None:
    """A plain flag is enough: it is set once."""
    context = of(TASK)
    seen: list[bool] = []
    assert not context.cancelled
    assert not context.cancel_was_seen

    context.cancel()
    assert not context.cancel_was_seen
    thread = threading.Thread(target=lambda: seen.append(context.cancelled))
    thread.start()
    thread.join()

    assert ([True], True) == (seen, context.cancel_was_seen)


@pytest.mark.parametrize("process", [False, True], ids=["here", "in another process"])
def test_outside_of_a_worker_a_context_raises_clear_errors(process: bool) -> None:
    """Its values of the task are available everywhere."""
    context = pickle.loads(pickle.dumps(of(TASK))) if process else of(TASK)  # noqa: S301 - our own

    assert (7, 5, 2, {}) == (context.id, context.lease, context.attempt, context.metadata)
    for use in (context.transaction, lambda: context.progress(1), lambda: context.log):
        with pytest.raises(RuntimeError, match="needs the worker's own process"):
            use()


@both_colours
def test_the_log_names_the_task(app: Orchestrator, connection: psycopg.Connection, colour: str) -> None:
    """With any configuration of structlog of the user's."""

    def note(context: Context) -> None:
        context.log.info("charged", amount=3)

    async def note_on_loop(context: Context) -> None:
        note(context)

    handle = app.task(name="charge")(note if colour == "def" else note_on_loop).enqueue()
    before = structlog.get_config()
    try:
        with structlog.testing.capture_logs() as lines:
            run_until_empty(app)
    finally:
        structlog.configure(**before)

    bound = {"task_id": handle.id, "type": "charge", "queue": "default", "attempt": 1}
    assert [{"event": "charged", "amount": 3, "log_level": "info", **bound}] == lines


def test_a_handler_without_a_context_needs_none(app: Orchestrator, connection: psycopg.Connection) -> None:
    """None is made, and none is checked afterwards."""
    made: list[Any] = []

    @app.task(name="plain")
    async def plain() -> None:
        made.append(asyncio.current_task())

    handle = plain.enqueue()
    run_until_empty(app)

    assert ("completed", 1) == (status(connection, handle.id), len(made))
