"""Which event loop a worker uses."""

import asyncio
import gc
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from orchestrator.processes import loop
from tests.worker.running import until


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.self = self


class Swift(asyncio.SelectorEventLoop):
    """A loop of another library."""


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """Let the collector see all objects, as in a new process. conftest.py excludes those of the tests."""
    gc.unfreeze()
    yield
    gc.freeze()


async def kind() -> type:
    return type(asyncio.get_running_loop())


def test_uvloop_is_used_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who has installed it wants to use it."""
    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=Swift))

    assert Swift is loop.run(kind())


@pytest.mark.parametrize("found", [None, SimpleNamespace()], ids=["nothing", "a folder of that name"])
def test_asyncio_is_used_where_it_is_not(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    """uvloop is an extra."""
    monkeypatch.setitem(sys.modules, "uvloop", found)

    assert loop.fastest() is None
    assert Swift is not loop.run(kind())


@pytest.mark.usefixtures("nothing_frozen")
def test_the_collector_runs_seldom_and_as_before_afterwards() -> None:
    """Thousands of waiting tasks do not start it, and it does not scan the loaded modules."""
    before = gc.get_threshold(), gc.get_freeze_count()

    async def seen() -> tuple[int, bool]:
        return gc.get_threshold()[0], gc.get_freeze_count() > 1000

    assert (loop.YOUNG_OBJECTS, True) == loop.run(seen())
    assert before[0] == gc.get_threshold()
    # Python 3.12 freezes some objects at its start, and they are thawed, too.
    assert before[1] >= gc.get_freeze_count()


@pytest.mark.usefixtures("nothing_frozen")
def test_what_an_application_has_frozen_stays_frozen() -> None:
    """It may have frozen its objects before it forks."""
    gc.freeze()
    before = gc.get_freeze_count()

    loop.run(kind())

    assert gc.get_freeze_count() >= before


def test_garbage_that_is_little_is_collected_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler may leave a few objects that hold much memory."""
    monkeypatch.setattr(loop, "COLLECT_SECONDS", 0.001)

    async def left() -> int:
        knots = [weakref.ref(Knot()) for _ in range(1000)]
        await until(lambda: not any(knot() for knot in knots), "it is gone", seconds=5.0)
        return sum(knot() is not None for knot in knots)

    assert 0 == loop.run(left())


def test_garbage_that_was_in_use_for_long_is_collected_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector scans long-lived objects of handlers less often, but it does scan them."""
    monkeypatch.setattr(loop, "COLLECT_SECONDS", 0.001)

    def churn() -> bool:
        return bool([Knot() for _ in range(1000)])

    async def left() -> int:
        held = [Knot() for _ in range(2000)]
        knots = [weakref.ref(knot) for knot in held]
        before = gc.get_stats()[0]["collections"]
        await until(lambda: churn() and gc.get_stats()[0]["collections"] > before + 2, "it has come by")
        held.clear()
        await until(lambda: churn() and not any(knot() for knot in knots), "they are gone", seconds=10.0)
        return sum(knot() is not None for knot in knots)

    assert 0 == loop.run(left())


@pytest.mark.usefixtures("nothing_frozen")
def test_in_another_thread_the_collector_is_left_alone() -> None:
    """A web process may run a worker beside its own work."""
    before = gc.get_threshold(), gc.get_freeze_count()

    async def seen() -> tuple[tuple[int, int, int], int]:
        return gc.get_threshold(), gc.get_freeze_count()

    with ThreadPoolExecutor(1) as pool:
        assert before == pool.submit(lambda: loop.run(seen())).result()
