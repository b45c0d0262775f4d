"""What is told for the sake of numbers, up to many times a second, and never as a line."""

from dataclasses import dataclass

from orchestrator.events.event import Event


@dataclass(frozen=True, slots=True)
class TasksEnqueued(Event):
    """Tasks of one type were sent from this process, and are there once their transaction commits."""

    type: str
    count: int


@dataclass(frozen=True, slots=True)
class ClaimAnswered(Event):
    """A claim has brought tasks, or none."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LoopTurned(Event):
    """The event loop came to what was due, so much too late; four times a second."""

    lag_seconds: float


@dataclass(frozen=True, slots=True)
class WorkersRung(Event):
    """What has become due was freed, and others were told of it; not sent, where this worker takes all of it itself."""

    sent: bool


@dataclass(frozen=True, slots=True)
class NotificationHeard(Event):
    """A notification has reached a worker: tasks in a queue of its own, or a word to the workers."""

    queue: str | None
