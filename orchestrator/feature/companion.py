"""A companion of the finish: it acts right after an end of a lease that returned permits or changed gates.

    an end is committed ──► told: its keys are gathered ──► follow, with all of them ──► 5 ms ──► follow ─ ─ ►

A follower calls one companion, in the worker's process, on the feature's connection. Without such ends it runs no
statement, and its connection is not opened.
"""

import asyncio
import math
from contextlib import suppress
from functools import partial
from typing import Protocol

from orchestrator import events
from orchestrator.finish import LeaseEnds
from orchestrator.postgres import transient_errors
from orchestrator.postgres.session import Connection, Session

# Between two calls, so that the ends of several batches go together.
PAUSE_SECONDS = 0.005
# After a failure.
FAILED_WAIT_SECONDS = 1.0
# More keys are not gathered. The feature's duty finds the rest.
KEYS_MAX = 10_000


class Companion(Protocol):
    """Acts on the ends of leases."""

    async def follow(self, connection: Connection, ends: LeaseEnds) -> float | None:
        """Act on these keys, in transactions of its own. Return in how many seconds to call again; None: after the
        next end. The keys are a hint: there may be none, or some that are done or unknown. The call is repeated when
        its connection breaks."""
        ...


class Follower:
    """Calls one companion: start by `run`, stop by `flush` and by ending `run`."""

    def __init__(self, name: str, companion: Companion, session: Session) -> None:
        self._name = name
        self._companion = companion
        self._session = session
        self._holds = set[int]()
        self._gates = set[int]()
        self._again_at = math.inf
        self._told = asyncio.Event()
        self._done = asyncio.Event()
        self._done.set()

    def tell(self, ends: LeaseEnds) -> None:
        """Note the keys of ends that are committed."""
        if len(self._holds) + len(self._gates) < KEYS_MAX:
            self._holds |= ends.holds
            self._gates |= ends.gates
        self._done.clear()
        self._told.set()

    async def run(self) -> None:
        """Follow, for ever."""
        while True:
            await self._wait()
            self._told.clear()
            ends = LeaseEnds(frozenset(self._holds), frozenset(self._gates))
            self._holds.clear()
            self._gates.clear()
            pause_seconds = await self._follow(ends)
            if not self._told.is_set():
                self._done.set()
            await asyncio.sleep(pause_seconds)

    async def flush(self) -> None:
        """Wait until every end noted so far is followed."""
        await self._done.wait()

    async def _wait(self) -> None:
        """Wait for an end, or until the companion wants to be called again."""
        seconds = self._again_at - asyncio.get_running_loop().time()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds if seconds < math.inf else None):
                await self._told.wait()

    async def _follow(self, ends: LeaseEnds) -> float:
        """Call the companion, and return how long to pause."""
        self._again_at = math.inf
        try:
            work = partial(self._companion.follow, ends=ends)
            seconds = await self._session.run(work, give_up_on=never)
        except Exception as error:
            # A companion must not end the worker. What it has missed, its duty does.
            events.emit(events.DutyFailed(self._name, type(error).__name__, transient_errors.reason(error)))
            return FAILED_WAIT_SECONDS
        if seconds is not None:
            self._again_at = asyncio.get_running_loop().time() + seconds
        return PAUSE_SECONDS


def never(_error: Exception) -> bool:
    return False
