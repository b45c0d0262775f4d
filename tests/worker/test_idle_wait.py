"""How long a worker sleeps, what wakes it, and for how long it asks for notifications."""

import asyncio

import pytest

from orchestrator.notify import idle_wait
from orchestrator.notify.idle_wait import (
    DEAF_POLL_SECONDS,
    DENSE,
    HOT_SECONDS,
    HOT_SECONDS_MAX,
    LOOKS_SECONDS,
    MARK_AGAIN_SECONDS,
    MARK_SECONDS,
    IdleWait,
)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The length of each sleep; no test really sleeps."""
    found: list[float] = []

    async def wait(_event: asyncio.Event, seconds: float | None) -> bool:
        assert seconds is not None
        found.append(seconds)
        return False

    monkeypatch.setattr(idle_wait, "wait", wait)
    return found


def resting(times: int, **given: float) -> IdleWait:
    """Wait this many times after empty claims."""
    tired = IdleWait(poll_seconds=given.get("poll_seconds", 5.0), impatient=False)
    tired.hears(True)
    tired.next_due(None)
    tired.marked(tired.mark_seconds() or 0.0)

    async def sleep() -> None:
        for _ in range(times):
            tired.next_due(None)
            await tired.rest()

    asyncio.run(sleep())
    return tired


def test_after_a_mark_it_looks_again_a_few_times(naps: list[float]) -> None:
    """A producer may have looked for idle workers before the mark and committed after it."""
    resting(len(LOOKS_SECONDS))

    assert list(LOOKS_SECONDS) == pytest.approx(naps, abs=0.001)


def test_an_idle_worker_sleeps_for_a_poll(naps: list[float]) -> None:
    """A notification wakes it earlier; the poll finds tasks without a notification."""
    tired = resting(len(LOOKS_SECONDS))
    tired.next_due(None)
    asyncio.run(tired.rest())

    assert naps[-1] == pytest.approx(5.0, rel=0.11)


def test_a_worker_without_notifications_looks_more_often(naps: list[float]) -> None:
    """Only the poll is left. A shorter configured poll is kept."""
    for poll_seconds, deaf in ((5.0, DEAF_POLL_SECONDS), (0.5, 0.5)):
        tired = resting(len(LOOKS_SECONDS), poll_seconds=poll_seconds)
        tired.hears(False)
        tired.next_due(None)
        asyncio.run(tired.rest())

        assert naps[-1] == pytest.approx(deaf, rel=0.11)


def test_a_mark_outlasts_every_sleep_that_relies_on_it() -> None:
    """It is renewed long before its end; after it no producer would notify the worker."""
    tired = IdleWait(poll_seconds=5.0, impatient=False)
    assert tired.mark_seconds() is None, "who cannot hear does not ask to be rung"
    tired.hears(True)

    assert tired.mark_seconds() == MARK_SECONDS > MARK_AGAIN_SECONDS > 2 * 1.1 * 5.0
    tired.marked(MARK_SECONDS)
    assert tired.is_marked
    assert tired.mark_seconds() is None


def test_a_hot_worker_needs_no_notification(naps: list[float]) -> None:
    """It removes its mark and looks every few milliseconds. With many workers each looks less often."""
    tired = resting(0)
    tired.claimed(int(DENSE))

    assert tired.mark_seconds() == 0.0
    tired.marked(0.0)
    assert not tired.is_marked
    for workers in (1, 20, 1000):
        tired.lives(workers)
        asyncio.run(tired.rest())
    assert naps == [HOT_SECONDS, 0.020, HOT_SECONDS_MAX]


async def test_a_freed_slot_ends_no_sleep() -> None:
    """The end of a task makes no new task ready."""
    tired = IdleWait(poll_seconds=5.0, impatient=False)
    tired.free()

    tired.next_due(0.05)
    await tired.rest()
    assert await tired.wait_for_room(0)
