"""The text of an exception or a result is the handler's own code: it may never end, and costs only its attempt."""

import threading
import time
from collections import UserDict
from collections.abc import Callable, ItemsView
from typing import Any, NoReturn

import psycopg
import pytest

from orchestrator import Cancel, Orchestrator, Retry
from orchestrator.execute import error_text
from tests.worker.running import run_until_empty, status, task, until, working

TEXT_SECONDS = 0.3
# Far beyond an end in time, also on a busy machine. Without a limit a test fails after this, and does not hang.
FOR_EVER_SECONDS = 25.0


def go_on(*, pause_seconds: float = 0.001) -> str:
    """Run Python code for ever. Without pauses it takes all of a core, which only one test needs."""
    end = time.monotonic() + FOR_EVER_SECONDS
    while time.monotonic() < end:
        if pause_seconds:
            time.sleep(pause_seconds)
    return "it came to an end"


class EndlessStr(Exception):
    def __str__(self) -> str:
        return go_on()


class Endless:
    def __repr__(self) -> str:
        return go_on()

    __str__ = __repr__


class EndlessCause(Exception):
    @property
    def __cause__(self) -> NoReturn:  # type: ignore[override]  # that is the point
        go_on()
        raise AssertionError("unreachable")


class EndlessNotes(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # that is the point
        return [go_on()]


class EndlessClass(Exception):
    @property  # type: ignore[misc]  # that is the point
    def __class__(self) -> type:
        go_on()
        return type(self)


class Stuck(Exception):
    """Waits where no exception can be raised in its thread."""

    def __str__(self) -> str:
        threading.Event().wait(FOR_EVER_SECONDS)
        return "it came to an end"


class Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        return go_on() if name in ("__qualname__", "__module__") else super().__getattribute__(name)


class EndlessName(Exception, metaclass=Nameless):
    pass


ENDLESS: dict[str, tuple[Callable[[], BaseException], str]] = {
    "__str__": (EndlessStr, "EndlessStr"),
    "__repr__": (lambda: KeyError(Endless()), "KeyError"),
    "__cause__": (EndlessCause, "EndlessCause"),
    "__notes__": (EndlessNotes, "EndlessNotes"),
    "__class__": (EndlessClass, "EndlessClass"),
    "a wait in __str__": (Stuck, "Stuck"),
    "a group": (lambda: ExceptionGroup("several", [EndlessStr()]), "ExceptionGroup"),
    "Retry": (lambda: Retry(0, Endless()), "Retry"),  # type: ignore[arg-type]  # a slip
    "Cancel": (lambda: Cancel(Endless()), "Cancel"),  # type: ignore[arg-type]  # a slip
}


@pytest.mark.parametrize("colour", ["async", "def"])
@pytest.mark.parametrize("what", ENDLESS)
def test_a_text_that_never_comes_ends_its_attempt(
    app: Orchestrator,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    colour: str,
) -> None:
    """The record has the class, and says that the text could not be made. The worker's loop is never blocked."""
    monkeypatch.setattr(error_text, "TEXT_SECONDS", TEXT_SECONDS)
    make, class_name = ENDLESS[what]

    def raising() -> None:
        raise make()

    async def on_loop() -> None:
        raising()

    hostile = app.task(name="hostile", max_attempts=1)(on_loop if colour == "async" else raising)
    enqueued = hostile.enqueue()
    run_until_empty(app, concurrency=1)

    row = task(connection, enqueued.id)
    assert "dead_letter" == row.status
    assert row.error["class"].endswith(class_name)
    assert f"(its text could not be made within {TEXT_SECONDS} s)" == row.error["message"]


@pytest.mark.parametrize("colour", ["async", "def"])
def test_a_name_that_never_comes_is_not_asked_for(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """A metaclass may have a __qualname__ of its own; Python's own name of the class needs none of it."""

    def raising() -> None:
        raise EndlessName("no")

    async def on_loop() -> None:
        raising()

    hostile = app.task(name="hostile", max_attempts=1)(on_loop if colour == "async" else raising)
    enqueued = hostile.enqueue()
    run_until_empty(app, concurrency=1)

    assert "tests.worker.test_endless_text.EndlessName" == task(connection, enqueued.id).error["class"]


def test_a_chain_of_a_hundred_thousand_causes_is_not_followed(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """The text is that of the exception itself."""

    @app.task(name="hostile", max_attempts=1)
    async def hostile() -> None:
        error = ValueError("the last")
        first = error
        for _ in range(100_000):
            error.__context__ = error = ValueError("an earlier one")
        raise first

    enqueued = hostile.enqueue()
    run_until_empty(app)

    error = task(connection, enqueued.id).error
    assert ("ValueError", "the last") == (error["class"], error["message"])
    assert "in hostile" in error["traceback"]
    assert "an earlier one" not in error["traceback"]


async def test_a_text_that_never_comes_keeps_no_other_task_waiting(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Others run during the wait, and the thread that makes the text ends, as far as Python can end it."""
    served = threading.Event()

    class Watching(Exception):
        def __str__(self) -> str:
            return "served meanwhile" if served.wait(FOR_EVER_SECONDS) else "alone"

    @app.task(name="hostile", max_attempts=1)
    async def hostile() -> None:
        raise Watching

    @app.task(name="civil")
    async def civil() -> None:
        served.set()

    async with working(app, concurrency=2):
        first, second = await hostile.aenqueue(), await civil.aenqueue()
        await until(lambda: status(connection, second.id) == "completed", "the other one is served")
        await until(lambda: status(connection, first.id) == "dead_letter", "the attempt has ended")
        assert "served meanwhile" == task(connection, first.id).error["message"]


async def test_a_thread_that_makes_endless_text_is_interrupted(
    app: Orchestrator, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would take half of the time of every other task, for ever."""
    monkeypatch.setattr(error_text, "TEXT_SECONDS", TEXT_SECONDS)
    ended = threading.Event()

    class Endless(Exception):
        def __str__(self) -> str:
            try:
                return go_on(pause_seconds=0)
            finally:
                ended.set()

    @app.task(name="hostile", max_attempts=1)
    async def hostile() -> None:
        raise Endless

    async with working(app):
        begun = time.monotonic()
        enqueued = await hostile.aenqueue()
        await until(lambda: status(connection, enqueued.id) == "dead_letter", "the attempt has ended")
        await until(ended.is_set, "the thread is interrupted")
        assert time.monotonic() - begun < FOR_EVER_SECONDS


class EndlessItems(UserDict[str, int]):
    def items(self) -> ItemsView[str, int]:
        go_on()
        return super().items()


@pytest.mark.parametrize("colour", ["async", "def"])
def test_a_result_that_never_ends_is_a_timeout(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """A result is encoded off the loop, and within the attempt's timeout."""

    def returning() -> Any:
        return EndlessItems()

    async def on_loop() -> Any:
        return returning()

    hostile = app.task(name="hostile", max_attempts=1, timeout=0.5)(
        on_loop if colour == "async" else returning
    )

    @app.task(name="civil")
    async def civil() -> str:
        return "served"

    first, second = hostile.enqueue(), civil.enqueue()
    run_until_empty(app, concurrency=1)

    assert ("dead_letter", "Timeout") == (
        status(connection, first.id),
        task(connection, first.id).error["class"],
    )
    assert "served" == task(connection, second.id).result
