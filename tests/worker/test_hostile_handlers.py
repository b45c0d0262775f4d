"""For any exception of a handler, its attempt ends, its worker lives, and it never counts as a success."""

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import NoReturn

import psycopg
import pytest

from orchestrator import Cancel, Discard, Orchestrator, Retry, Snooze
from tests.worker.running import (
    AT_ONCE,
    attempts,
    run_until_empty,
    status,
    statuses,
    task,
    until,
    value,
    working,
)


class Rude(BaseException):
    """An exception that `except Exception` does not catch."""


class Mute(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("ask me nothing")


class Deadly(Exception):
    """Making its text ends the process."""

    def __str__(self) -> str:
        raise SystemExit(3)


class Odd(Exception):
    """Its __str__ returns something that is no text."""

    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # that is the point


class HalfMade(Snooze):
    """A signal whose subclass does not call the constructor of its base class."""

    def __init__(self) -> None:
        pass


def throw(error: BaseException) -> Callable[[], NoReturn]:
    def thrower() -> NoReturn:
        raise error

    return thrower


def recurse() -> NoReturn:
    recurse()
    raise AssertionError("unreachable")


def in_a_circle() -> NoReturn:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


def in_a_group() -> NoReturn:
    raise BaseExceptionGroup("several", [Rude("one"), ValueError("two")])


ZOO: dict[str, tuple[Callable[[], NoReturn], str, str]] = {
    "SystemExit": (throw(SystemExit(1)), "SystemExit", "1"),
    "SystemExit of success": (lambda: sys.exit(0), "SystemExit", "0"),
    "KeyboardInterrupt": (throw(KeyboardInterrupt()), "KeyboardInterrupt", ""),
    "GeneratorExit": (throw(GeneratorExit("bye")), "GeneratorExit", "bye"),
    "asyncio.CancelledError": (
        throw(asyncio.CancelledError("mine")),
        "asyncio.exceptions.CancelledError",
        "mine",
    ),
    "futures.CancelledError": (
        throw(concurrent.futures.CancelledError("pool")),
        "concurrent.futures._base.CancelledError",
        "pool",
    ),
    "a BaseException": (throw(Rude("!")), "tests.worker.test_hostile_handlers.Rude", "!"),
    "MemoryError": (throw(MemoryError("no room")), "MemoryError", "no room"),
    "StopAsyncIteration": (throw(StopAsyncIteration("end")), "StopAsyncIteration", "end"),
    "StopIteration": (throw(StopIteration("end")), "RuntimeError", ""),
    "RecursionError": (recurse, "RecursionError", "maximum recursion depth exceeded"),
    "a mute exception": (throw(Mute()), "Mute", "its __str__ raised RuntimeError"),
    "a deadly exception": (throw(Deadly()), "Deadly", "its __str__ raised SystemExit"),
    "an odd exception": (throw(Odd()), "Odd", "its __str__ raised TypeError"),
    "NUL": (throw(ValueError("a\x00b")), "ValueError", "a\\x00b"),
    "a lone surrogate": (throw(ValueError("a\ud800b")), "ValueError", "a\\ud800b"),
    "ten megabytes": (throw(ValueError("x" * 10_000_000)), "ValueError", "characters left out"),
    "causes in a circle": (in_a_circle, "ValueError", "first"),
    "a group": (in_a_group, "BaseExceptionGroup", "several"),
    "a signal of bad make": (throw(HalfMade()), "HalfMade", ""),
    "Cancel without a text": (throw(Cancel(404)), "cancelled", "404"),  # type: ignore[arg-type]  # a slip
    "Discard without a text": (throw(Discard(None)), "Discard", "None"),  # type: ignore[arg-type]  # a slip
    "Retry without a text": (throw(Retry(0, b"no")), "Retry", "no"),  # type: ignore[arg-type]  # a slip
}


def on_loop(raiser: Callable[[], NoReturn]) -> Callable[[], Awaitable[None]]:
    async def handler() -> None:
        raiser()

    return handler


@pytest.mark.parametrize("colour", ["async", "def"])
def test_any_exception_of_a_handler_ends_only_its_attempt(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """Class and message are on record, and the same worker goes on with the next task."""

    @app.task(name="civil")
    async def civil() -> str:
        return "served"

    hostile, served = {}, []
    for animal, (raiser, _, _) in ZOO.items():
        handler = on_loop(raiser) if colour == "async" else raiser
        hostile[animal] = app.task(name=f"hostile.{animal.replace(' ', '_')}", max_attempts=1)(
            handler
        ).enqueue()
        served.append(civil.enqueue())
    run_until_empty(app, concurrency=1)

    for animal, (_, class_name, message) in ZOO.items():
        row = task(connection, hostile[animal].id)
        assert (row.status, row.result) in [("dead_letter", None), ("cancelled", None)], animal
        assert class_name.lower() in row.error["class"].lower()
        assert message in row.error["message"], animal
        assert len(row.error["message"]) <= 2_100, animal
        assert len(row.error["traceback"]) <= 16_100, animal
    assert [("completed", "served")] * len(ZOO) == [
        (status(connection, handle.id), task(connection, handle.id).result) for handle in served
    ]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({1, 2}, "result is a set"),
        (object(), "result is of type object"),
        ({"at": [datetime(2026, 1, 1)]}, "result.at[0] is a datetime without a UTC offset"),
        (float("nan"), "result is nan"),
        ({"a": "\x00"}, "result.a contains \\u0000"),
        (
            "x" * 10_000_000,
            "result takes more than 10,000,000 bytes of JSON text, more than the 1,048,576 allowed; "
            "store the data elsewhere and pass its id",
        ),
        ({1: 2}, "result has a key of type int"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 99 else "",
)
def test_a_result_that_is_not_json_is_a_failed_attempt(
    app: Orchestrator, connection: psycopg.Connection, result: object, reason: str
) -> None:
    """It fails, and is tried again as its attempts allow. The reason names the path, and nothing is cut."""
    calls = []

    @app.task(name="returning", max_attempts=2, backoff=AT_ONCE)
    async def returning() -> object:
        calls.append(1)
        return result

    enqueued = returning.enqueue()
    run_until_empty(app)

    row = task(connection, enqueued.id)
    assert ("dead_letter", None, 2) == (row.status, row.result, len(calls))
    assert reason in row.error["message"]
    assert [(1, "failed"), (2, "failed")] == attempts(connection, enqueued.id)


def test_a_handler_that_outlives_its_cancellation_costs_the_worker_nothing(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """A value returned in spite of the timeout counts: the work was done."""

    @app.task(name="stubborn", timeout=0.05)
    async def stubborn() -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "finished all the same"

    enqueued = stubborn.enqueue()
    run_until_empty(app)

    assert "finished all the same" == task(connection, enqueued.id).result


def test_two_hundred_short_tasks_leave_no_threads(app: Orchestrator, connection: psycopg.Connection) -> None:
    """There are as many threads as slots, and they end with their worker."""
    most: list[int] = []

    @app.task(name="short")
    def short() -> None:
        most.append(threading.active_count())

    before = set(threading.enumerate())

    async def main() -> None:
        async with working(app, concurrency=4):
            for _ in range(200):
                await short.aenqueue()
            await until(lambda: len(most) == 200, "all have run")
        await app.aclose()
        await until(lambda: not handlers(before), "the handlers' threads are gone")

    asyncio.run(main())

    # Four slots; beside them the heartbeat and the loop's own helpers.
    assert max(most) <= len(before) + 4 + 8
    assert set() == set(threading.enumerate()) - before


def handlers(before: set[threading.Thread]) -> list[str]:
    return [
        t.name for t in threading.enumerate() if t not in before and t.name.startswith("orchestrator-handler")
    ]


async def test_a_cancellation_that_a_handler_leaves_behind_harms_no_other_task(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """It reaches the slot's next attempt while that waits for its mark `running`. Once it ended the worker."""

    @app.task(name="sloppy")
    async def sloppy() -> None:
        job = asyncio.current_task()
        assert job is not None
        asyncio.get_running_loop().call_soon(job.cancel)

    app.task(name="next")(lambda: None)
    connection.execute("INSERT INTO orchestrator.tasks (type) VALUES ('sloppy'), ('next')")
    connection.execute("UPDATE orchestrator.tasks_live SET losses = 1 WHERE type = 'next'")

    async with working(app, concurrency=2) as worker:
        await until(lambda: worker.done() or {"completed": 2} == statuses(connection), "both run")
        assert not worker.done()
    assert 1 == value(connection, "SELECT max(losses) FROM orchestrator.tasks")
