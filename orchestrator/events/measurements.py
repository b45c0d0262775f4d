"""Events for metrics only: up to many times a second, and never a log line."""

from dataclasses import dataclass

from orchestrator.events.event import Event


@dataclass(frozen=True, slots=True)
class TasksEnqueued(Event):
    """This process sent tasks of one type. They are there once their transaction commits."""

    type: str
    count: int


@dataclass(frozen=True, slots=True)
class ClaimAnswered(Event):
    """A claim has returned, with or without tasks."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LoopTurned(Event):
    """The event loop ran a timed call, `lag_seconds` late. Four times a second."""

    lag_seconds: float


@dataclass(frozen=True, slots=True)
class WorkersRung(Event):
    """A worker made due tasks pending, and woke other workers. Not sent: it claims all of the tasks itself."""

    sent: bool

    @property
    def suppressed(self) -> bool:
        """Whether no notification was needed."""
        return not self.sent


@dataclass(frozen=True, slots=True)
class NotificationHeard(Event):
    """A worker received a notification: for one of its queues, or for all workers (None)."""

    queue: str | None
