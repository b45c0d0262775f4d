"""The plan of a run, and its result."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.chaos.schedule import Fault

QUICK = {
    "ORCHESTRATOR_POLL_SECONDS": "0.5",
    "ORCHESTRATOR_HEARTBEAT_SECONDS": "0.4",
    "ORCHESTRATOR_DEAD_AFTER_SECONDS": "2",
    "ORCHESTRATOR_TERM_SECONDS": "2",
}
# They notice a dead connection as quickly as the timers above.
GUARDS = "connect_timeout=2&tcp_user_timeout=1500&keepalives_idle=1&keepalives_interval=1&keepalives_count=2"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run."""

    seed: int
    seconds: float
    faults: Iterable[Fault]
    workers: int = 4
    producers: int = 2
    per_second: float = 60.0
    defaults: bool = False
    calm_seconds: float = 120.0
    faults_min: int = 0
    """Go on after `seconds`, up to eight times as long, until there were so many faults."""

    @property
    def timers(self) -> dict[str, str]:
        """The workers' settings for times."""
        return {} if self.defaults else QUICK

    @property
    def guards(self) -> str:
        """The options of their connections."""
        return "" if self.defaults else GUARDS


@dataclass(slots=True)
class Outcome:
    """The result of a run, without the records."""

    seconds: float = 0.0
    planned: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    drained_seconds: float | None = None
    proof_seconds: float | None = None
    stubborn: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return self.counts.total()
