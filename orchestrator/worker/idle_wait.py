"""When a worker that found nothing looks again.

dense arrivals    hot: look every few milliseconds; nobody need ring
sparse ones       say that we sleep, look again after 2, 10, 50, 250 ms (a producer may have looked for sleepers
                  before we said so, and committed after it), then sleep until rung, until something falls due, or
                  for one poll
"""

import asyncio
import random
import time
from contextlib import suppress

LOOKS_SECONDS = (0.002, 0.010, 0.050, 0.250)
# The poll when no notification arrives.
DEAF_POLL_SECONDS = 1.0
# While there is work, nobody rings for a task that falls due; so we look for it at this beat.
DUE_WHEN_BUSY_SECONDS = 0.1
# So many tasks a second found by this worker are dense: to be rung for each would cost their producers more than our
# looking costs anybody. They are so until there are only half as many.
DENSE = 200.0
HOT_SECONDS = 0.004
# A fleet looks no more often than a few workers would.
HOT_SECONDS_FOR_EACH = 0.001
HOT_SECONDS_MAX = 0.050
RATE_OVER_SECONDS = 0.5
# For how long we ask to be rung, and how long before the end of it we ask again.
MARK_SECONDS = 60.0
MARK_AGAIN_SECONDS = 15.0
DUE_JITTER_SECONDS = 0.02


class IdleWait:
    """How long this worker may sleep, and what wakes it."""

    def __init__(self, *, poll_seconds: float, impatient: bool) -> None:
        self._poll_seconds_hearing = poll_seconds
        self._poll_seconds = min(poll_seconds, DEAF_POLL_SECONDS)
        # For `--until-empty`: nobody rings when the last task of another worker ends.
        self._impatient = impatient
        self._awake = asyncio.Event()
        self._room = asyncio.Event()
        self._rung = False
        self._looks = 0
        self._due_at = 0.0
        self._marked_until = 0.0
        self._arrivals = Arrivals()
        self._live_workers = 1
        self._hears = False

    # What others tell.

    def ring(self) -> None:
        """Somebody says that there is work."""
        self._rung = True
        self.wake()

    def wake(self) -> None:
        """End the present sleep, whatever it waits for."""
        self._awake.set()
        self._room.set()

    def free(self) -> None:
        """A slot may be free, or the outbox have room: that ends a wait for room, and no other sleep."""
        self._room.set()
        if self._impatient:
            self._awake.set()

    def look_for_due(self) -> None:
        """A task was put off, or its row may have been: it may fall due sooner than we thought."""
        self._due_at = 0.0
        self.wake()

    def hears(self, hears: bool) -> None:  # noqa: FBT001 - a callback
        """Learn whether notifications arrive: without them the poll is all that wakes us."""
        longest = self._poll_seconds_hearing
        self._hears = hears
        self._poll_seconds = longest if hears else min(longest, DEAF_POLL_SECONDS)
        self._due_at = min(self._due_at, time.monotonic() + self._poll_seconds)
        # To ask to be rung, or no more.
        self.wake()

    @property
    def can_be_rung(self) -> bool:
        """Whether notifications arrive. Any thread may ask."""
        return self._hears

    def lives(self, workers: int) -> None:
        """Learn how many workers there are."""
        self._live_workers = workers

    # What the claiming side tells and asks.

    def take_ring(self) -> bool:
        """Tell whether we were rung since this was asked last: then a claim comes before all else."""
        rung, self._rung = self._rung, False
        return rung

    @property
    def is_hot(self) -> bool:
        """Whether tasks arrive so densely that we look every few milliseconds."""
        return self._arrivals.are_dense()

    @property
    def is_due(self) -> bool:
        """Whether something scheduled may have become due, or a poll is."""
        return time.monotonic() >= self._due_at

    def next_due(self, seconds: float | None) -> None:
        """Learn when the next scheduled task falls due; None: none is waiting."""
        poll = self._poll_seconds * random.uniform(0.9, 1.1)  # nosec B311 # noqa: S311 - a jitter is no secret
        # Not all at once: of fifty workers one frees what has become due.
        jitter = random.uniform(0.0, DUE_JITTER_SECONDS)  # nosec B311 # noqa: S311 - a jitter is no secret
        self._due_at = time.monotonic() + (poll if seconds is None else min(poll, max(0.0, seconds) + jitter))

    def claimed(self, count: int) -> None:
        """Learn how many a claim has found."""
        self._arrivals.count(count)

    def found(self) -> None:
        """There may be more: nobody rings for what falls due meanwhile."""
        self._due_at = min(self._due_at, time.monotonic() + DUE_WHEN_BUSY_SECONDS)

    def forget(self) -> None:
        """What happens from now on wakes us; what happened before has been seen."""
        self._awake.clear()
        self._room.clear()

    def forget_mark(self) -> None:
        """Nobody rings for us: the mark is taken away, or belongs to another id."""
        self._marked_until = 0.0

    @property
    def is_marked(self) -> bool:
        """Whether producers ring for us."""
        return time.monotonic() < self._marked_until

    def mark_seconds(self) -> float | None:
        """Return for how long to ask to be rung, before the next rest; 0: no more; None: as it is."""
        now = time.monotonic()
        if self._arrivals.are_dense() or not self._hears:
            return None if not self.is_marked else 0.0
        if now < self._marked_until - MARK_AGAIN_SECONDS:
            return None
        if not self.is_marked:
            # Who committed just before saw no mark: look again a few times.
            self._looks = 0
        return MARK_SECONDS

    def marked(self, seconds: float) -> None:
        """Learn that the mark is written."""
        # Relied on for a little less: the clocks are two.
        self._marked_until = time.monotonic() + seconds - 1.0 if seconds else 0.0

    async def rest(self) -> None:
        """Nothing more was found: sleep a little, or for long."""
        if not self._hears and not self._arrivals.are_dense():
            # Nobody can ring.
            seconds = self._poll_seconds
        elif not self.is_marked:
            # Nobody rings: tasks arrive densely, or the mark could not be written.
            seconds = min(max(HOT_SECONDS, HOT_SECONDS_FOR_EACH * self._live_workers), HOT_SECONDS_MAX)
        elif self._looks < len(LOOKS_SECONDS):
            seconds = LOOKS_SECONDS[self._looks]
            self._looks += 1
            # What was committed without a ring may lie in the future, too: each look sweeps.
            self._due_at = min(self._due_at, time.monotonic() + seconds)
        else:
            # By when a poll is due, or the mark is to be written again.
            seconds = max(0.0, self._marked_until - MARK_AGAIN_SECONDS - time.monotonic())
        if self._impatient:
            seconds = min(seconds, LOOKS_SECONDS[-1])
        await wait(self._awake, min(seconds, self._due_at - time.monotonic()))

    async def wait_for_room(self, seconds: float | None = None) -> bool:
        """Sleep until there is room, or so long; tell whether there was, or something else to do."""
        return await wait(self._room, seconds)


class Arrivals:
    """How many tasks a second are found."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._counted = 0
        self._since = time.monotonic()
        self._dense = False

    def count(self, count: int) -> None:
        self._counted += count

    def are_dense(self) -> bool:
        """Tell whether so many arrive that it is better to look than to be rung."""
        elapsed = time.monotonic() - self._since
        if elapsed >= RATE_OVER_SECONDS:
            self._rate = self._counted / elapsed
            self._counted = 0
            self._since += elapsed
        rate = max(self._rate, self._counted / RATE_OVER_SECONDS)
        self._dense = rate >= DENSE / (2 if self._dense else 1)
        return self._dense


async def wait(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for an event, for so long; tell whether it came."""
    if event.is_set():
        return True
    if seconds is not None and seconds <= 0:
        await asyncio.sleep(0)
        return event.is_set()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False
