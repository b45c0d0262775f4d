"""Events of the leader's duties, without recovery."""

from dataclasses import dataclass

from orchestrator.events.event import Event


@dataclass(frozen=True, slots=True)
class TimeoutsEnforced(Event):
    """The leader ended attempts that ran longer than their timeout and that their workers had not ended."""

    retried: int
    dead_lettered: int


@dataclass(frozen=True, slots=True)
class LeafDropped(Event):
    """The leader dropped the finished tasks of a day, which no queue keeps any longer."""

    leaf: str


@dataclass(frozen=True, slots=True)
class RowsExpired(Event):
    """The leader deleted rows of one kind at the end of their retention."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class GaugesSampled(Event):
    """The state of the whole cluster at one moment, sorted. None: there is no value, or the role may not read it."""

    tasks: tuple[tuple[str, str, int], ...]
    """Live tasks: queue, status, number."""
    oldest_ready_seconds: tuple[tuple[str, float], ...]
    """For how long the longest-waiting pending task of a queue could have run."""
    dead_letters: tuple[tuple[str, int], ...]
    workers: tuple[tuple[str, int], ...]
    """State, number."""
    notification_queue_usage: float
    """From 0 to 1; when it is full, the commits of producers fail."""
    oldest_snapshot_transactions: int | None
    oldest_snapshot_seconds: float | None
    leaves_ahead: int
    """Days after today that have their leaf."""
    took_seconds: float
