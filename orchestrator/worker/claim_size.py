"""How many tasks to claim: for the slots that are free, and for those that will be when the claim is back."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.task.claimed import Claimed, are_whole, payload_memory
from orchestrator.worker.slots import Slots

# One statement; beyond that it does not become cheaper by the task, and the first of it wait for the last.
CLAIM_MAX = 1000
# More would hold up a more urgent task behind what was taken before it.
AHEAD_MAX = 4000
# So much must be missing, of one statement, that it is worth one.
ENOUGH = 0.5
# As far as we look ahead, in round trips of a claim, and at most in seconds.
ROUND_TRIPS = 4.0
AHEAD_SECONDS = 0.1
# Of payloads that wait for a slot.
BYTES_MAX = 16_000_000
# After something had to go back since it waited too long: for so long, no more than the slots get through in so many
# seconds.
CAUTIOUS_SECONDS = 10.0
CAUTION = 0.5
# So many times smaller is the next claim when one has met payloads that were too large for it.
LARGER = 4
# The weight of the newest measurement.
NEWEST = 0.4


@dataclass(slots=True)
class ClaimSize:
    """Follows the speed of the slots: tasks begun a second, and what a claim takes."""

    slots: Slots
    _begun: int = 0
    _since: float = field(default_factory=time.monotonic)
    _rate: float = 0.0
    _claim_seconds: float = 0.0
    _prefetch: int = 0
    _payload_bytes: float = 1000.0
    _stale: int = 0
    _cautious_until: float = 0.0

    def wanted(self, *, coming: int = 0) -> int:
        """Return how many to claim now; 0 while enough is ready, or so little is missing that it can wait for more. So
        many are claimed already, and not handed over yet."""
        self._measure()
        most = self._most() - coming
        room = min(self.slots.free + self._prefetch - coming, most)
        if room < 1 or room < min(self._prefetch, most, CLAIM_MAX) * ENOUGH:
            return 0
        return min(room, CLAIM_MAX)

    def _most(self) -> int:
        """Return how many there may be at the most: their payloads lie in memory, and what lately had to go back since
        nothing got to it is not to be taken again."""
        most = int(BYTES_MAX / self._payload_bytes) - len(self.slots.ready)
        if self.slots.stale != self._stale:
            self._stale, self._cautious_until = self.slots.stale, time.monotonic() + CAUTIOUS_SECONDS
        if time.monotonic() < self._cautious_until:
            most = min(most, int(self._rate * CAUTION) - len(self.slots.ready))
        return max(most, 0 if self.slots.ready else 1)

    def claimed(self, tasks: Sequence[Claimed], seconds: float) -> None:
        """Learn what a claim found, and what it took."""
        if tasks:
            mean = payload_memory(tasks) / len(tasks)
            if not are_whole(tasks):
                # How much larger nobody knows; a few such steps reach any size.
                mean = max(mean, LARGER * BYTES_MAX / len(tasks))
            # Upwards at once.
            self._payload_bytes = max(1.0, mean, self._payload_bytes + NEWEST * (mean - self._payload_bytes))
        self._claim_seconds += NEWEST * (seconds - self._claim_seconds)
        self._measure()

    def _measure(self) -> None:
        """Learn how fast the slots are, and with it how far ahead to claim."""
        now = time.monotonic()
        # Over ten milliseconds at least, or a burst between two claims would pass for the speed of all.
        if now - self._since > 0.010:
            rate = (self.slots.begun - self._begun) / (now - self._since)
            # What was seen for as long as we look ahead is all there is to know: while slow tasks fill the slots nobody
            # looks, and what was fast before them would be claimed, kept from others, and given back again and again.
            newest = max(NEWEST, min(1.0, (now - self._since) / AHEAD_SECONDS))
            self._rate += newest * (rate - self._rate)
            self._begun, self._since = self.slots.begun, now
        ahead_seconds = min(ROUND_TRIPS * self._claim_seconds, AHEAD_SECONDS)
        self._prefetch = min(int(self._rate * ahead_seconds), AHEAD_MAX)
        self.slots.low_water = max(0, self._prefetch - int(min(self._prefetch, CLAIM_MAX) * ENOUGH))
