"""When a worker that found nothing looks again: soon a few times, then when it is rung, when something falls due,
or after one poll."""

import asyncio
import random
import time
from contextlib import suppress

# Each once, then sleep: a producer may have looked for sleepers before we said that we are one, and committed
# after it.
LOOKS_SECONDS = (0.002, 0.010, 0.050, 0.250)
# The poll when no notification arrives.
DEAF_POLL_SECONDS = 1.0
# While there is work, nobody rings for a task that falls due; so we look for it at this beat.
DUE_WHEN_BUSY_SECONDS = 0.1


class Rest:
    """How long this worker may sleep, and what wakes it."""

    def __init__(self, *, poll_seconds: float, impatient: bool) -> None:
        self._poll_seconds_hearing = poll_seconds
        self._poll_seconds = self._asked_poll_seconds = min(poll_seconds, DEAF_POLL_SECONDS)
        # For `--until-empty`: nobody rings when the last task of another worker ends.
        self._impatient = impatient
        self._awake = asyncio.Event()
        self._looks = 0
        self._due_at = 0.0

    @property
    def is_first_look(self) -> bool:
        """Whether this rest begins a new sleep, so that it is time to ask to be rung."""
        return self._looks == 0

    def ask_seconds(self) -> float:
        """For how long to ask: longer than the poll with its jitter, or its end would go unrung."""
        # Should the poll become longer before this sleep is over, then only for the next one.
        self._asked_poll_seconds = self._poll_seconds
        return 1.1 * self._poll_seconds + 1

    @property
    def is_due(self) -> bool:
        """Whether something scheduled may have become due."""
        return time.monotonic() >= self._due_at

    def hears(self, hears: bool) -> None:  # noqa: FBT001 - a callback
        """Learn whether notifications arrive: without them the poll is all that wakes us."""
        longest = self._poll_seconds_hearing
        self._poll_seconds = longest if hears else min(longest, DEAF_POLL_SECONDS)
        self._due_at = min(self._due_at, time.monotonic() + self._poll_seconds)

    def wake(self) -> None:
        """End the present sleep."""
        self._awake.set()

    def look_for_due(self) -> None:
        """We were rung, or put a task off ourselves: it may fall due sooner than we thought."""
        self._due_at = 0.0
        self._looks = 0
        self.wake()

    def next_due(self, seconds: float | None) -> None:
        """Learn when the next scheduled task falls due; None: none is waiting."""
        longest = self._poll_seconds
        self._due_at = time.monotonic() + min(longest, longest if seconds is None else seconds)

    def found(self) -> None:
        """There was work: the next sleep begins anew."""
        self._looks = 0
        self._due_at = min(self._due_at, time.monotonic() + DUE_WHEN_BUSY_SECONDS)

    def forget(self) -> None:
        """What happens from now on wakes us; what happened before has been seen."""
        self._awake.clear()

    async def rest(self) -> None:
        """Nothing was found: sleep a little, or for long."""
        if self._looks < len(LOOKS_SECONDS):
            seconds = LOOKS_SECONDS[self._looks]
            self._looks += 1
            # What was committed without a ring may lie in the future, too: each look sweeps.
            self._due_at = min(self._due_at, time.monotonic() + seconds)
        else:
            poll_seconds = min(self._poll_seconds, self._asked_poll_seconds)
            seconds = poll_seconds * random.uniform(0.9, 1.1)  # noqa: S311 - a jitter is no secret
            self._looks = 0
        if self._impatient:
            seconds = min(seconds, LOOKS_SECONDS[-1])
        await self.sleep(min(seconds, self._due_at - time.monotonic()))

    async def sleep(self, seconds: float | None = None) -> None:
        """Sleep until woken, or so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds is None else max(0.0, seconds)):
                await self._awake.wait()
