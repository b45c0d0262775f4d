"""The rows of the reference; each gives the row that the database must have."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.task.status import FINISHED

Row = dict[str, Any]

# An hour before midnight, so that the clock crosses it in some stories.
ZERO = datetime(2030, 6, 1, 23, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Task:
    """One task. A change makes a new object."""

    id: int
    queue: str
    priority: int
    max_attempts: int
    timeout: int
    key: str | None
    status: str
    run_at: int
    attempt: int = 0
    losses: int = 0
    lease: int | None = None
    worker: int | None = None
    claimed_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    error: str | None = None
    result: str | None = None

    def place(self) -> tuple[int, int, int]:
        """The order of execution."""
        return -self.priority, self.run_at, self.id

    def row(self) -> Row:
        shown = asdict(self)
        return shown | {"leaf": leaf(self.status, self.finished_at)}


def leaf(status: str, finished_at: int | None) -> str:
    """Return the leaf of a task."""
    if status == "dead_letter":
        return "tasks_dead"
    if status in FINISHED and finished_at is not None:
        return f"tasks_done_{ZERO + timedelta(seconds=finished_at):%Y%m%d}"
    return "tasks_live"


@dataclass(slots=True)
class Worker:
    """One registration of a process."""

    id: int
    beat_at: int
    state: str = "running"
    is_leader: bool = False
    term: int | None = None
    leader_until: int | None = None

    @property
    def lives(self) -> bool:
        return self.state in ("running", "draining")

    @property
    def until(self) -> int:
        return self.leader_until or 0

    def leads_at(self, now: int) -> bool:
        return self.is_leader and self.leader_until is not None and self.leader_until > now

    def row(self) -> Row:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Key:
    """The task that has an idempotency key, and the end of this."""

    key: str
    task: int
    expires_at: int

    def row(self) -> Row:
        return asdict(self)
