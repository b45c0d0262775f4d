"""Events of a leader: its terms, and the duties that failed or were put off."""

from dataclasses import dataclass
from uuid import UUID

from orchestrator.events.event import Event


@dataclass(frozen=True, slots=True)
class LeaderElected(Event):
    """A worker became the leader, in a new term."""

    worker_id: UUID
    term: int


@dataclass(frozen=True, slots=True)
class LeaderResigned(Event):
    """A leader resigned."""

    worker_id: UUID
    term: int


@dataclass(frozen=True, slots=True)
class LeaderSteppedDown(Event):
    """A leader's term ended, or it could not renew the term in time. It stops its duties."""

    worker_id: UUID
    term: int


@dataclass(frozen=True, slots=True)
class DutyPutOff(Event):
    """A duty met the lock of another transaction. It runs again at its next turn."""

    duty: str
    reason: str


@dataclass(frozen=True, slots=True)
class DutyRowSkipped(Event):
    """A duty failed on one row and went on with the others. It tries that row again at its next turn."""

    duty: str
    row: str
    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class DutyFailed(Event):
    """A duty raised an error. It runs again at its next turn, and the other duties go on."""

    duty: str
    error_class: str
    message: str
