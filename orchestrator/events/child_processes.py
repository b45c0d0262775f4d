"""Events of the parent of worker processes. `place` counts from 1; a child that is started again has the place of the
one that died.
"""

from dataclasses import dataclass

from orchestrator.events.event import Event


@dataclass(frozen=True, slots=True)
class ChildStarted(Event):
    """The parent started a worker process, which begins to load the application."""

    place: int
    pid: int


@dataclass(frozen=True, slots=True)
class ChildEnded(Event):
    """A worker process ended on request, or because no task was left. The parent does not replace it."""

    place: int
    pid: int | None


@dataclass(frozen=True, slots=True)
class ChildDied(Event):
    """A worker process ended in another way, or could not start (`pid` is None). If
    `restart_after_seconds` is None, the parent does not replace it."""

    place: int
    pid: int | None
    how: str
    restart_after_seconds: float | None


@dataclass(frozen=True, slots=True)
class ChildrenStopping(Event):
    """The parent asked the worker processes to stop, or to hurry."""

    children: int
    hurry: bool


@dataclass(frozen=True, slots=True)
class ChildKilled(Event):
    """A worker process did not stop in time after its grace. The parent killed it. Its tasks will be recovered."""

    pid: int
