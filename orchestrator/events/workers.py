"""What happens to a worker as a whole."""

from dataclasses import dataclass
from uuid import UUID

from orchestrator.events.event import Event


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    """A worker has its row and begins to claim."""

    worker_id: UUID
    queues: tuple[str, ...]
    concurrency: int
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerAwaited(Event):
    """A worker was started while its PostgreSQL is away, and waits for it: so long by now, and so long at most."""

    reason: str
    waited_seconds: float
    limit_seconds: float


@dataclass(frozen=True, slots=True)
class MetricsServed(Event):
    """A port is open: /metrics, /healthz, /readyz."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class WorkerStopping(Event):
    """A worker has stopped claiming and lets its tasks finish."""

    worker_id: UUID
    running: int
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class WorkerStopped(Event):
    """A worker has given everything back and taken its row off the list of the living."""

    worker_id: UUID


@dataclass(frozen=True, slots=True)
class WorkerDeclaredDead(Event):
    """A worker's beat was missing for so long that its tasks were given away; it goes on as a new worker."""

    worker_id: UUID
    new_worker_id: UUID
    dropped: int


@dataclass(frozen=True, slots=True)
class WorkerCutOff(Event):
    """A worker has not reached the database for so long that its tasks may have been given away: it has stopped its
    handlers, and goes on as a new worker."""

    worker_id: UUID
    new_worker_id: UUID
    silent_seconds: float


@dataclass(frozen=True, slots=True)
class WorkerWornOut(Event):
    """So many handlers went on in their threads after their timeouts that the worker stops, and asks to be replaced."""

    worker_id: UUID
    left_behind: int


@dataclass(frozen=True, slots=True)
class ProcessGivenUp(Event):
    """A worker's process has ended itself, at once: it was told to stop and could not, or a handler has closed its
    descriptors. Its tasks will be recovered."""

    pid: int
    reason: str


@dataclass(frozen=True, slots=True)
class ListenDeaf(Event):
    """A worker sent itself a notification and did not hear it: it polls each second, and holds no beacon. PgBouncer in
    transaction mode lets LISTEN succeed and delivers nothing."""

    worker_id: UUID


@dataclass(frozen=True, slots=True)
class LoopBlocked(Event):
    """A handler keeps the event loop from turning: the worker lives on, and what it had not begun goes to others, but
    nothing else of it moves. Such a handler should be a `def`, or run in a process."""

    worker_id: UUID
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkerHung(Event):
    """The event loop has not turned for longer than every timeout of what runs on it. The worker beats no more, so what
    it holds goes to others; `orchestrator worker` ends its process, to be started again."""

    worker_id: UUID
    blocked_seconds: float
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopFree(Event):
    """The event loop turns again."""

    worker_id: UUID
    blocked_seconds: float


@dataclass(frozen=True, slots=True)
class DatabaseReplaced(Event):
    """The database under a running worker is a copy that nobody has resumed: nothing runs. Or it was resumed."""

    worker_id: UUID
    resumed: bool


@dataclass(frozen=True, slots=True)
class QueuesPaused(Event):
    """Which of a worker's queues are paused has changed; none may be left."""

    queues: tuple[str, ...]
