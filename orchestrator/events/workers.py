"""Events of a worker as a whole."""

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
    """A worker has started, and its PostgreSQL does not answer. It has waited for `waited_seconds`, and waits for
    `limit_seconds` at most."""

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
    """A worker has given back all its tasks and has marked its row as stopped."""

    worker_id: UUID


@dataclass(frozen=True, slots=True)
class WorkerDeclaredDead(Event):
    """A worker was silent for too long, and others got its tasks. It goes on as a new worker."""

    worker_id: UUID
    new_worker_id: UUID
    dropped: int


@dataclass(frozen=True, slots=True)
class WorkerCutOff(Event):
    """A worker could not reach the database for so long that others may have its tasks. It has stopped its handlers
    and goes on as a new worker."""

    worker_id: UUID
    new_worker_id: UUID
    silent_seconds: float


@dataclass(frozen=True, slots=True)
class WorkerWornOut(Event):
    """Too many handlers go on in their threads after their timeouts. The worker stops, so that another replaces it."""

    worker_id: UUID
    left_behind: int


@dataclass(frozen=True, slots=True)
class ProcessAborted(Event):
    """A worker's process ended itself at once: it could not stop in time, or a handler closed its descriptors. Its
    tasks will be recovered."""

    pid: int
    reason: str


@dataclass(frozen=True, slots=True)
class ListenDeaf(Event):
    """A worker sent itself a notification and did not receive it: it polls each second, and holds no beacon. PgBouncer
    in transaction mode lets LISTEN succeed and delivers nothing."""

    worker_id: UUID


@dataclass(frozen=True, slots=True)
class LoopBlocked(Event):
    """A handler blocks the event loop. The worker still beats and gives back the tasks that have not begun. All its
    other work waits. Such a handler should be a `def`, or run in a process."""

    worker_id: UUID
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkerHung(Event):
    """The event loop is blocked for longer than the timeout of every attempt on it. The worker stops beating, so others
    get its tasks. `orchestrator worker` ends the process, so that another replaces it."""

    worker_id: UUID
    blocked_seconds: float
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopFree(Event):
    """The event loop is no longer blocked."""

    worker_id: UUID
    blocked_seconds: float


@dataclass(frozen=True, slots=True)
class DatabaseReplaced(Event):
    """The database of a running worker is a copy. The worker runs no task until an operator resumes the database. Or an
    operator has just resumed it."""

    worker_id: UUID
    resumed: bool


@dataclass(frozen=True, slots=True)
class QueuesPaused(Event):
    """The list of a worker's paused queues has changed; it may be empty."""

    queues: tuple[str, ...]
