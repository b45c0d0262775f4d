"""Events of a leader: its reigns, and the duties that failed or were put off."""

from dataclasses import dataclass
from uuid import UUID

from orchestrator.events.event import Event


@dataclass(frozen=True, slots=True)
class LeaderElected(Event):
    """A worker leads, in a new term."""

    worker_id: UUID
    term: int


@dataclass(frozen=True, slots=True)
class LeaderResigned(Event):
    """A leader has resigned."""

    worker_id: UUID
    term: int


@dataclass(frozen=True, slots=True)
class LeaderSteppedDown(Event):
    """A leader found its term over, or could not renew it in time, and stops acting as one."""

    worker_id: UUID
    term: int


@dataclass(frozen=True, slots=True)
class DutyPutOff(Event):
    """Another transaction's lock was in the way of a duty; the duty runs again at its next turn."""

    duty: str
    reason: str


@dataclass(frozen=True, slots=True)
class DutyRowSkipped(Event):
    """A duty failed on one row, and did the others. It tries that row again at its next turn."""

    duty: str
    row: str
    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class DutyFailed(Event):
    """A duty raised. It runs again at its next turn, and the other duties go on."""

    duty: str
    error_class: str
    message: str
