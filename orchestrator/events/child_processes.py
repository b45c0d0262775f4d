"""What the parent of worker processes has to tell of them. `place` counts from 1: who is started again has the place of
the one that died.
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
    """A worker process has ended because it was told to, or had nothing left to do; nobody takes its place."""

    place: int
    pid: int | None


@dataclass(frozen=True, slots=True)
class ChildDied(Event):
    """A worker process has ended otherwise, or could not even be started (no pid). Nobody takes its place: None."""

    place: int
    pid: int | None
    how: str
    restart_after_seconds: float | None


@dataclass(frozen=True, slots=True)
class ChildrenStopping(Event):
    """The worker processes were told to stop, or to hurry."""

    children: int
    hurry: bool


@dataclass(frozen=True, slots=True)
class ChildKilled(Event):
    """A worker process was told to stop and was still there long after its grace; its tasks will be recovered."""

    pid: int
