"""How many tasks to claim: for the slots that are free, and for those that will be when the claim is back."""

import time
from dataclasses import dataclass, field

from orchestrator.worker.slots import Slots

# One statement; beyond that it does not become cheaper by the task, and the first of it wait for the last.
CLAIM_MAX = 1000
# More would hold up a more urgent task behind what was taken before it.
AHEAD_MAX = 2000
# So much must be missing, of one statement, that it is worth one.
ENOUGH = 0.5
# As far as we look ahead, in round trips of a claim, and at most in seconds.
ROUND_TRIPS = 3.0
AHEAD_SECONDS = 0.1
# The weight of the newest measurement.
NEWEST = 0.4


@dataclass(slots=True)
class Ahead:
    """Follows the speed of the slots: tasks begun a second, and what a claim takes."""

    slots: Slots
    _begun: int = 0
    _since: float = field(default_factory=time.monotonic)
    _rate: float = 0.0
    _claim_seconds: float = 0.0
    _prefetch: int = 0

    def wanted(self) -> int:
        """Return how many to claim now; 0 while enough is ready, or so little is missing that it can wait for more."""
        self._measure()
        room = self.slots.free + self._prefetch
        if room < 1 or room < min(self._prefetch, CLAIM_MAX) * ENOUGH:
            return 0
        return min(room, CLAIM_MAX)

    def claimed(self, seconds: float) -> None:
        """Learn what a claim took."""
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
