"""Where in the order of a queue a claim should look, while a long transaction keeps dead index entries in place.

Each claim leaves a dead entry in the index, at the place of the task it took. While any transaction holds an old
snapshot, the server cannot remove these entries, and a claim that begins at the front passes all of them: after a
minute at some thousand tasks a second that takes a hundred times as long. So a worker remembers which stretches of the
order it has emptied, one for each priority in use. Once a look at everything is costly, it looks only beside them.

    cheap     look at everything; note what was claimed
    costly    look beside the stretches. For a twentieth of the time, look into them too, a slice at a time: that finds
              a task that was missed (it was locked, was given back, or was committed late)
              nothing found for a while: look at everything, for a twentieth of the time

A set that is committed late is often hundreds of missed tasks. So a look that finds missed tasks goes on in the
next claim, behind the last of them, if its claim found all that it wanted.

A task that is more urgent than any before lies beside the stretches. The next claim finds it.
"""

import time
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from orchestrator.task.claimed import Claimed

# A place in the order: position and id.
Place = tuple[int, int]
PLACE, PAYLOAD, QUEUE = attrgetter("position", "id"), attrgetter("payload"), attrgetter("queue")
FRONT: Place = (-(2**63), -(2**63))
BACK: Place = (2**63 - 1, 2**63 - 1)
HOUR = 3_600_000_000  # in units of a position, which is microseconds

# A claim passes many dead entries if it takes longer than its round trip, plus this, plus this for each task that it
# found and for each byte of their payloads.
COSTLY_SECONDS = 0.010
COSTLY_SECONDS_FOR_EACH = 0.000_05
COSTLY_SECONDS_FOR_EACH_BYTE = 0.000_000_05
ROUND_TRIPS = 2.0
# After so long without a task there is time to look at everything.
IDLE_SECONDS = 1.0
# Tasks further apart belong to two stretches: another priority, or a burst of tasks long ago.
GAP = HOUR // 6
STRETCHES_MAX = 16
# Looks into the stretches: how long one slice should take, and their share of the time.
SLICE_SECONDS = 0.025
SHARE = 0.05
CUTS_MAX = 256


@dataclass(frozen=True, slots=True)
class Range:
    """A part of the order of a queue, without its two ends."""

    queue: str
    after: Place
    before: Place


@dataclass(slots=True)
class Trail:
    """The stretches of one queue that this worker has emptied, in order: first and last place of each."""

    stretches: list[tuple[Place, Place]] = field(default_factory=list)

    def note(self, first: Place, last: Place) -> None:
        """Remember that everything between two tasks was claimed; make one stretch of those that meet."""
        apart = []
        for a, b in self.stretches:
            if a[0] - GAP <= last[0] and first[0] <= b[0] + GAP:
                first, last = min(a, first), max(b, last)
            else:
                apart.append((a, b))
        insort(apart, (first, last))
        # With so many priorities, or such short aging, stretches do not pay.
        self.stretches = apart if len(apart) <= STRETCHES_MAX else []

    def beside(self, reach: int) -> Iterable[tuple[Place, Place]]:
        """Return the ranges before, between and after the stretches. A stretch begins by `reach` before the first task
        that we have claimed of it: other workers have claimed there before us."""
        after = FRONT
        for first, last in self.stretches:
            front = (first[0] - reach, 0)
            if front > after:
                yield after, front
            after = last
        yield after, BACK

    def slices(self, reach: int, count: int) -> list[tuple[Place, Place]]:
        """Return the stretches, each cut into `count` pieces."""
        found = []
        after = FRONT
        for first, last in self.stretches:
            # The part before the first task is a slice of its own.
            found.append(((max(after[0], first[0] - reach), -1), (first[0], first[1])))
            step, end = (last[0] - first[0]) // count + 1, (last[0], last[1] + 1)
            for n in range(count):
                start = (first[0], first[1] - 1) if n == 0 else (first[0] + n * step, -1)
                until = end if n == count - 1 else (first[0] + (n + 1) * step, 0)
                found.append((min(start, end), min(until, end)))
            after = last
        return found


class ScanPositions:
    """What one worker remembers about its queues."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._trails: dict[str, Trail] = {}
        self._reach = GAP
        self._cuts = 1
        self._slice = self._slices = 0
        self._cheap = 0  # how many slices in a row were cheap
        self._look_inside_at = 0.0
        # Where the present look is, inside the stretches of each queue, and how long its slowest claim took.
        self._inside: dict[str, tuple[Place, Place]] = {}
        self._is_slice = False
        self._slowest = 0.0
        self._found_at = time.monotonic()
        self._look_at_all_at = 0.0
        self._is_looking_at_all = True
        self.is_costly = False

    def ranges(self, queues: Sequence[str]) -> list[Range] | None:
        """Return where the next claim should look, with the queues in this order; None: everywhere."""
        now = time.monotonic()
        self._is_looking_at_all = not self._inside and (
            not self.is_costly or (now - self._found_at > IDLE_SECONDS and now >= self._look_at_all_at)
        )
        if self._is_looking_at_all:
            self._is_slice = False
            return None
        if not self._inside and now >= self._look_inside_at:
            self._inside = dict(self._next_slices(queues))
            self._is_slice = bool(self._inside)
            # Without a stretch, as after too many of them, each claim looks at everything.
            self._is_looking_at_all = not self._is_slice
        return [
            Range(queue, after, before)
            for queue in queues
            for after, before in self._parts(queue)
            if after < before
        ]

    def _next_slices(self, queues: Sequence[str]) -> Iterable[tuple[str, tuple[Place, Place]]]:
        for queue in queues:
            if (trail := self._trails.get(queue)) and (slices := trail.slices(self._reach, self._cuts)):
                self._slices = max(self._slices, len(slices))
                yield queue, slices[self._slice % len(slices)]

    def _parts(self, queue: str) -> list[tuple[Place, Place]]:
        """Return where to look in one queue: beside its stretches, and inside them where the present look is."""
        trail = self._trails.get(queue)
        parts = list(trail.beside(self._reach)) if trail is not None else [(FRONT, BACK)]
        return joined([*parts, self._inside[queue]]) if queue in self._inside else parts

    def learn(
        self,
        tasks: Sequence[Claimed],
        seconds: float,
        *,
        wanted: int | None = None,
        limits: Mapping[str, int] | None = None,
        round_trip_seconds: float = 0.0,
    ) -> None:
        """Note what a claim found, in the order of each queue, how many it wanted in all and of each queue, how long
        it took, and how long a round trip takes."""
        now = time.monotonic()
        if tasks:
            self._found_at = now
        is_full = wanted is not None and len(tasks) >= wanted
        looks = self._is_looking_at_all and self.is_costly
        goes_on: dict[str, tuple[Place, Place]] = {}
        was_seen = True
        for queue, group in groupby(tasks, key=QUEUE):
            found = list(group)
            trail = self._trails.setdefault(queue, Trail())
            part = (FRONT, BACK) if looks else self._inside.get(queue)
            if part and (is_full or (limits and len(found) >= limits[queue])):
                was_seen &= PLACE(found[-1]) > part[0]
                if missed := self._last_missed(trail, found, part):
                    goes_on[queue] = missed, part[1]
            for first, last in runs(found):
                trail.note(first, last)
        has_looked, self._inside = bool(self._inside), goes_on
        was_costly = passed_many(tasks, seconds, round_trip_seconds)
        if self._is_looking_at_all:
            if not was_costly:
                if self.is_costly:
                    # The dead entries are gone, or they were not the cause.
                    self._forget()
                return
            self.is_costly = True
            self._has_looked(seconds)
        elif has_looked:
            if was_costly or not was_seen:
                self._cheap = -1
            self._has_looked(seconds)
        elif was_costly:
            # There are still many dead entries on our way: they lie before what we have claimed ourselves.
            self._reach = min(self._reach * 4, 1_000_000 * HOUR)

    def _last_missed(self, trail: Trail, found: Sequence[Claimed], part: tuple[Place, Place]) -> Place | None:
        """Return the place of the last task that only a look into this part of the stretches finds."""
        beside = list(trail.beside(self._reach))
        for place in map(PLACE, reversed(found)):
            if part[0] < place < part[1] and not any(after < place < before for after, before in beside):
                return place
        return None

    def _has_looked(self, seconds: float) -> None:
        """A claim of a look was answered. When it was the last, decide when the next look is due."""
        self._slowest = max(self._slowest, seconds)
        if self._inside:
            return
        slowest, self._slowest = self._slowest, 0.0
        self._look_inside_at = time.monotonic() + slowest / SHARE
        if not self._is_slice:
            self._look_at_all_at = self._look_inside_at
            return
        self._slice += 1
        self._cheap += 1
        if slowest > 2 * SLICE_SECONDS:
            self._cuts = min(self._cuts * 2, CUTS_MAX)
        elif self._cheap > self._slices and self._cuts > 1:
            self._cuts //= 2
            self._cheap = self._slices = 0
        elif self._cheap > self._slices:
            # A look at everything was cheap: the dead entries are gone.
            self._forget()


def passed_many(tasks: Sequence[Claimed], seconds: float, round_trip_seconds: float) -> bool:
    """Tell whether a claim took so long that it has passed many dead entries."""
    payload_bytes = sum(map(len, map(PAYLOAD, tasks)))
    return seconds > (
        COSTLY_SECONDS
        + ROUND_TRIPS * round_trip_seconds
        + COSTLY_SECONDS_FOR_EACH * len(tasks)
        + COSTLY_SECONDS_FOR_EACH_BYTE * payload_bytes
    )


def joined(parts: list[tuple[Place, Place]]) -> list[tuple[Place, Place]]:
    """Return ranges in order, and those that overlap as one: a claim that met a task twice would find too few."""
    found: list[tuple[Place, Place]] = []
    for after, before in sorted(parts):
        if found and after < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], before)
        else:
            found.append((after, before))
    return found


def runs(tasks: Sequence[Claimed]) -> Iterable[tuple[Place, Place]]:
    """Return the first and the last place of each run of tasks that lie close together."""
    first = last = PLACE(tasks[0])
    if tasks[-1].position - first[0] <= GAP:
        yield first, PLACE(tasks[-1])
        return
    for place in map(PLACE, tasks):
        if place[0] - last[0] > GAP:
            yield first, last
            first = place
        last = place
    yield first, last
