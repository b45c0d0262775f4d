"""When a worker that found nothing looks again.

dense arrivals    the worker is hot: it looks every few milliseconds and is not rung
sparse arrivals   mark that the worker sleeps, look again after 2, 10, 50, 250 ms (a producer may have looked for
                  sleepers before the mark and committed after it), then sleep until a ring, until a scheduled task
                  falls due, or for one poll
"""

import asyncio
import random
import time
from contextlib import suppress
from uuid import UUID

LOOKS_SECONDS = (0.002, 0.010, 0.050, 0.250)
# The poll of a worker that notifications do not reach.
DEAF_POLL_SECONDS = 1.0
# A working worker is not rung for a task that falls due, so it looks for due tasks this often.
DUE_WHEN_BUSY_SECONDS = 0.1
# Arrivals are dense when this worker finds so many tasks a second: then a ring for each costs the producers more than
# the worker's looks cost. They stay dense until the rate falls to half.
DENSE = 200.0
HOT_SECONDS = 0.004
# All workers together look no more often than a few hot ones.
HOT_SECONDS_FOR_EACH = 0.001
HOT_SECONDS_MAX = 0.050
RATE_OVER_SECONDS = 0.5
# The leader notices within 4 s that a worker has died if its row names its beacon, and after 30 s if not. So a worker
# claims nothing before. It waits no longer than this: where notifications do not arrive, there is no beacon.
FIRST_BEACON_SECONDS = 1.0
# How long a mark lasts, and how long before its end it is written again.
MARK_SECONDS = 60.0
MARK_AGAIN_SECONDS = 15.0
DUE_JITTER_SECONDS = 0.02


class IdleWait:
    """Decides how long this worker sleeps, and wakes it."""

    def __init__(self, *, poll_seconds: float, impatient: bool) -> None:
        self._poll_seconds_hearing = poll_seconds
        self._poll_seconds = min(poll_seconds, DEAF_POLL_SECONDS)
        # For `--until-empty`: there is no ring when another worker's last task ends.
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
        self._listed: UUID | None = None
        self.may_claim = False  # until our row names our beacon, or the time for that is over

    # Calls from the other parts.

    def ring(self) -> None:
        """A ring has arrived: there is work."""
        self._rung = True
        self.wake()

    def wake(self) -> None:
        """End the present sleep, whatever it waits for."""
        self._awake.set()
        self._room.set()

    def free(self) -> None:
        """A slot may be free, or the outbox may have room. This ends a wait for room, but no other sleep."""
        self._room.set()
        if self._impatient:
            self._awake.set()

    def look_for_due(self) -> None:
        """A task was put off, or may have been: a task may fall due sooner than expected."""
        self._due_at = 0.0
        self.wake()

    def hears(self, hears: bool) -> None:  # noqa: FBT001 - a callback
        """Note whether notifications arrive. Without them only the poll wakes the worker."""
        longest = self._poll_seconds_hearing
        self._hears = hears
        self._poll_seconds = longest if hears else min(longest, DEAF_POLL_SECONDS)
        self._due_at = min(self._due_at, time.monotonic() + self._poll_seconds)
        # So that the mark is written or removed.
        self.wake()

    @property
    def can_be_rung(self) -> bool:
        """Whether notifications arrive. Any thread may ask."""
        return self._hears

    def lives(self, workers: int) -> None:
        """Note how many workers live."""
        self._live_workers = workers

    def listed(self, worker_id: UUID, *, with_beacon: bool) -> None:
        """Note that the database has our row under this id, and whether it names our beacon."""
        if worker_id != self._listed:
            self._listed = worker_id
            asyncio.get_running_loop().call_later(FIRST_BEACON_SECONDS, self._allow_claims, worker_id)
        if with_beacon:
            self._allow_claims(worker_id)

    def _allow_claims(self, worker_id: UUID) -> None:
        if worker_id == self._listed and not self.may_claim:
            self.may_claim = True
            self.ring()

    # Calls from the intake.

    def begin_anew(self) -> None:
        """The worker has another id: there is no row yet, no beacon and no mark."""
        self.may_claim, self._listed, self._marked_until = False, None, 0.0

    def take_ring(self) -> bool:
        """Tell whether a ring arrived since the last call. If so, the worker claims first."""
        rung, self._rung = self._rung, False
        return rung

    @property
    def is_rung(self) -> bool:
        """Whether a ring waits to be taken."""
        return self._rung

    @property
    def is_hot(self) -> bool:
        """Whether tasks arrive so densely that the worker looks every few milliseconds."""
        return self._arrivals.are_dense()

    @property
    def is_due(self) -> bool:
        """Whether something scheduled may have become due, or a poll is."""
        return time.monotonic() >= self._due_at

    def next_due(self, seconds: float | None) -> None:
        """Note when the next scheduled task falls due. None: there is no scheduled task."""
        poll = self._poll_seconds * random.uniform(0.9, 1.1)  # nosec B311 # noqa: S311 - a jitter is no secret
        # A jitter, so that one of fifty workers sweeps the due tasks, not all at once.
        jitter = random.uniform(0.0, DUE_JITTER_SECONDS)  # nosec B311 # noqa: S311 - a jitter is no secret
        self._due_at = time.monotonic() + (poll if seconds is None else min(poll, max(0.0, seconds) + jitter))

    def claimed(self, count: int) -> None:
        """Note how many tasks a claim has found."""
        self._arrivals.count(count)

    def found(self) -> None:
        """Tasks were found. Look for due tasks soon, since there is no ring for them meanwhile."""
        self._due_at = min(self._due_at, time.monotonic() + DUE_WHEN_BUSY_SECONDS)

    def forget(self) -> None:
        """Clear earlier wakes: the caller has seen their reasons. Later ones wake the worker."""
        self._awake.clear()
        self._room.clear()

    @property
    def is_marked(self) -> bool:
        """Whether producers ring for this worker."""
        return time.monotonic() < self._marked_until

    def mark_seconds(self) -> float | None:
        """Return for how long to write the mark before the next rest. 0: remove it; None: leave it as it is."""
        now = time.monotonic()
        if self._arrivals.are_dense() or not self._hears:
            return None if not self.is_marked else 0.0
        if now < self._marked_until - MARK_AGAIN_SECONDS:
            return None
        if not self.is_marked:
            # A producer that commits just before the mark does not see it: look again a few times.
            self._looks = 0
        return MARK_SECONDS

    def marked(self, seconds: float) -> None:
        """Note that the mark is written."""
        # Rely on it for 1 s less, since the database's clock and ours differ.
        self._marked_until = time.monotonic() + seconds - 1.0 if seconds else 0.0

    async def rest(self) -> None:
        """Nothing more was found: sleep briefly or for long."""
        if not self._hears and not self._arrivals.are_dense():
            # Rings do not arrive.
            seconds = self._poll_seconds
        elif not self.is_marked:
            # There are no rings: tasks arrive densely, or the mark could not be written.
            seconds = min(max(HOT_SECONDS, HOT_SECONDS_FOR_EACH * self._live_workers), HOT_SECONDS_MAX)
        elif self._looks < len(LOOKS_SECONDS):
            seconds = LOOKS_SECONDS[self._looks]
            self._looks += 1
            # A task that was committed without a ring may be scheduled, so each look sweeps, too.
            self._due_at = min(self._due_at, time.monotonic() + seconds)
        else:
            # Until the mark has to be written again; the poll may come first.
            seconds = max(0.0, self._marked_until - MARK_AGAIN_SECONDS - time.monotonic())
        if self._impatient:
            seconds = min(seconds, LOOKS_SECONDS[-1])
        await wait(self._awake, min(seconds, self._due_at - time.monotonic()))

    async def wait_for_room(self, seconds: float | None = None) -> bool:
        """Sleep until there is room or something else to do, for at most `seconds`. Return whether it was woken."""
        return await wait(self._room, seconds)


class Arrivals:
    """Measures how many tasks a second are found."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._counted = 0
        self._since = time.monotonic()
        self._dense = False

    def count(self, count: int) -> None:
        self._counted += count

    def are_dense(self) -> bool:
        """Tell whether so many tasks arrive that looking is cheaper than rings."""
        elapsed = time.monotonic() - self._since
        if elapsed >= RATE_OVER_SECONDS:
            self._rate = self._counted / elapsed
            self._counted = 0
            self._since += elapsed
        rate = max(self._rate, self._counted / RATE_OVER_SECONDS)
        self._dense = rate >= DENSE / (2 if self._dense else 1)
        return self._dense


async def wait(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for an event for at most `seconds`. Return whether it came."""
    if event.is_set():
        return True
    if seconds is not None and seconds <= 0:
        await asyncio.sleep(0)
        return event.is_set()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False
