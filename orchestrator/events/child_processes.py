"""Events of the parent of worker processes. `place` counts from 1; a child that is started again has the place of the
one that died.
"""

from dataclasses import dataclass

from orchestrator.events.event import Event


@dataclass(frozen=True, slots=True)
class ChildStarted(Event):
    """A worker process runs, and begins to load the application."""

    place: int
    pid: int


@dataclass(frozen=True, slots=True)
class ChildEnded(Event):
    """A worker process has ended on request, or had nothing left to do. No other takes its place."""

    place: int
    pid: int | None


@dataclass(frozen=True, slots=True)
class ChildDied(Event):
    """A worker process has ended in another way, or could not start (no pid). No other takes its place: None."""

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
    """A worker process did not stop long after its grace, and was killed; its tasks will be recovered."""

    pid: int
