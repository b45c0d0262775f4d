"""Events of the leader's duties, without recovery."""

from dataclasses import dataclass

from orchestrator.events.event import Event


@dataclass(frozen=True, slots=True)
class TimeoutsEnforced(Event):
    """The leader ended attempts that ran beyond their timeout, because their workers did not."""

    retried: int
    dead_lettered: int


@dataclass(frozen=True, slots=True)
class LeafDropped(Event):
    """A day of finished tasks was dropped: no queue keeps it any longer."""

    leaf: str


@dataclass(frozen=True, slots=True)
class RowsExpired(Event):
    """Rows of one kind were deleted, because they had been kept long enough."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class GaugesSampled(Event):
    """What the whole cluster holds at one moment, sorted. None: there is none, or this role may not see it."""

    tasks: tuple[tuple[str, str, int], ...]
    """Live tasks: queue, status, how many."""
    oldest_ready_seconds: tuple[tuple[str, float], ...]
    """For how long the longest-waiting pending task of a queue could have run."""
    dead_letters: tuple[tuple[str, int], ...]
    workers: tuple[tuple[str, int], ...]
    """State, how many."""
    notification_queue_usage: float
    """From 0 to 1; when it is full, the commits of producers fail."""
    oldest_snapshot_transactions: int | None
    oldest_snapshot_seconds: float | None
    leaves_ahead: int
    """Days after today that have their leaf."""
    took_seconds: float
