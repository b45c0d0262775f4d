"""What an elected leader has to tell: its reigns, and the duties that did not go as they should."""

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
    """A leader has laid the lead down."""

    worker_id: UUID
    term: int


@dataclass(frozen=True, slots=True)
class LeaderSteppedDown(Event):
    """A leader found its term over, or could not renew it in time, and stops acting as one."""

    worker_id: UUID
    term: int


@dataclass(frozen=True, slots=True)
class DutyPutOff(Event):
    """A duty found somebody's lock in its way; it comes again at its next turn."""

    duty: str
    reason: str


@dataclass(frozen=True, slots=True)
class DutyRowSkipped(Event):
    """A duty could not do one row, and did the others; it tries that row again at its next turn."""

    duty: str
    row: str
    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class DutyFailed(Event):
    """A duty raised; it is tried again at the next beat, and the others go on."""

    duty: str
    error_class: str
    message: str
