"""How many tasks to claim: for the slots that are free now, and for those that get free during the claim."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from orchestrator.task.claimed import Claimed
from orchestrator.worker.ledger import Ledger

PAYLOAD = attrgetter("payload")

# The most tasks of one claim. More do not make a task cheaper, and the first ones would wait for the last.
CLAIM_MAX = 1000
# With more, an urgent task would wait behind tasks claimed before it.
AHEAD_MAX = 4000
# The share of a full claim that must be missing before a claim is worth its cost.
ENOUGH = 0.5
# How far to claim ahead: in round trips of a claim, and at most in seconds.
ROUND_TRIPS = 4.0
AHEAD_SECONDS = 0.1
# The most bytes of payloads that wait for a slot.
BYTES_MAX = 16_000_000
# For CAUTIOUS_SECONDS after tasks waited too long: claim no more than the slots finish in CAUTION seconds.
CAUTIOUS_SECONDS = 10.0
CAUTION = 0.5
# After a claim with payloads that were too large for it, the next claim is so many times smaller.
LARGER = 4
# The weight of the newest measurement.
NEWEST = 0.4


@dataclass(slots=True)
class ClaimSize:
    """Measures the tasks begun a second and the duration of a claim."""

    ledger: Ledger
    _begun: int = 0
    _since: float = field(default_factory=time.monotonic)
    _rate: float = 0.0
    _claim_seconds: float = 0.0
    _prefetch: int = 0
    _payload_bytes: float = 1000.0

    def wanted(self, *, coming: int = 0) -> int:
        """Return how many to claim now; 0 while enough tasks are ready, or too few are missing for a claim. `coming`:
        how many are claimed already and not passed on yet."""
        self._measure()
        most = self._most() - coming
        room = min(self.ledger.free + self._prefetch - coming, most)
        if room < 1 or room < min(self._prefetch, most, CLAIM_MAX) * ENOUGH:
            return 0
        return min(room, CLAIM_MAX)

    def _most(self) -> int:
        """Return the most tasks to claim: their payloads take memory, and tasks that were lately released because they
        waited too long must not be claimed again."""
        waiting = len(self.ledger.line)
        most = int(BYTES_MAX / self._payload_bytes) - waiting
        if time.monotonic() < self.ledger.stale_at + CAUTIOUS_SECONDS:
            most = min(most, int(self._rate * CAUTION) - waiting)
        return max(most, 0 if waiting else 1)

    def claimed(self, tasks: Sequence[Claimed], seconds: float) -> None:
        """Note the tasks that a claim found, and its duration."""
        if tasks:
            # In memory: one character outside ASCII makes its whole text wider.
            mean = sum(map(str.__sizeof__, map(PAYLOAD, tasks))) / len(tasks)
            if not all(map(PAYLOAD, tasks)):
                # The sizes of the larger payloads are unknown. A few such steps reach any size.
                mean = max(mean, LARGER * BYTES_MAX / len(tasks))
            # The estimate grows at once and falls slowly.
            self._payload_bytes = max(1.0, mean, self._payload_bytes + NEWEST * (mean - self._payload_bytes))
        self._claim_seconds += NEWEST * (seconds - self._claim_seconds)
        self._measure()

    def _measure(self) -> None:
        """Measure the speed of the slots, and derive how far ahead to claim."""
        now = time.monotonic()
        # Over at least ten milliseconds: a shorter burst between two claims would give a wrong rate.
        if now - self._since > 0.010:
            rate = (self.ledger.begun - self._begun) / (now - self._since)
            # A measurement as long as AHEAD_SECONDS replaces the old rate. While slow tasks fill the slots there are no
            # measurements, and with the old, fast rate the worker would claim tasks, keep them from other workers, and
            # release them again and again.
            newest = max(NEWEST, min(1.0, (now - self._since) / AHEAD_SECONDS))
            self._rate += newest * (rate - self._rate)
            self._begun, self._since = self.ledger.begun, now
        ahead_seconds = min(ROUND_TRIPS * self._claim_seconds, AHEAD_SECONDS)
        self._prefetch = min(int(self._rate * ahead_seconds), AHEAD_MAX)
        self.ledger.low_water = max(0, self._prefetch - int(min(self._prefetch, CLAIM_MAX) * ENOUGH))
