"""Everything that happens, as frozen dataclasses. Stations emit; who wants to know subscribes.

A subscriber runs on the emitter's thread and must be quick. One that raises is left out of that event, and
never hurts a task.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from orchestrator.events.event import Event as Event
from orchestrator.events.housekeeping import GaugesSampled as GaugesSampled
from orchestrator.events.housekeeping import LeafDropped as LeafDropped
from orchestrator.events.housekeeping import RowsExpired as RowsExpired
from orchestrator.events.housekeeping import TimeoutsEnforced as TimeoutsEnforced
from orchestrator.events.leading import DutyFailed as DutyFailed
from orchestrator.events.leading import DutyPutOff as DutyPutOff
from orchestrator.events.leading import LeaderElected as LeaderElected
from orchestrator.events.leading import LeaderResigned as LeaderResigned
from orchestrator.events.leading import LeaderSteppedDown as LeaderSteppedDown


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    """A worker has its row and begins to claim."""

    worker_id: UUID
    queues: tuple[str, ...]
    concurrency: int
    types: tuple[str, ...]


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
class ListenDeaf(Event):
    """A worker sent itself a notification and did not hear it: it polls each second, and holds no beacon. PgBouncer in
    transaction mode lets LISTEN succeed and delivers nothing."""

    worker_id: UUID


@dataclass(frozen=True, slots=True)
class DatabaseReplaced(Event):
    """The database under a running worker is a copy that nobody has resumed: nothing runs. Or it was resumed."""

    worker_id: UUID
    resumed: bool


@dataclass(frozen=True, slots=True)
class QueuesPaused(Event):
    """Which of a worker's queues are paused has changed; none may be left."""

    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskStarted(Event):
    """An attempt begins."""

    task_id: int
    type: str
    queue: str
    attempt: int


@dataclass(frozen=True, slots=True)
class TaskCompleted(Event):
    """A task's success is written down."""

    task_id: int
    type: str
    queue: str
    attempt: int


@dataclass(frozen=True, slots=True)
class TaskFailed(Event):
    """An attempt failed; there will be another."""

    task_id: int
    type: str
    queue: str
    attempt: int
    error_class: str
    message: str
    retry_after_seconds: float


@dataclass(frozen=True, slots=True)
class TaskBuried(Event):
    """A task has become a dead letter."""

    task_id: int
    type: str
    queue: str
    attempt: int
    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class TaskCancelled(Event):
    """A task was cancelled by its handler."""

    task_id: int
    type: str
    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class TaskSnoozed(Event):
    """A handler asked to be called later."""

    task_id: int
    type: str
    queue: str
    after_seconds: float


@dataclass(frozen=True, slots=True)
class TaskPutBack(Event):
    """A claimed task is of a type this worker does not know; it waits for one that does."""

    task_id: int
    type: str
    queue: str
    after_seconds: float


@dataclass(frozen=True, slots=True)
class TaskReleased(Event):
    """A task was given back unfinished, its attempt not counted."""

    task_id: int
    type: str
    queue: str


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """A task was taken from the handler that runs it: cancelled, requeued or deleted by a hand, or given to another
    worker. The handler was told, and its outcome counts for nothing."""

    task_id: int
    type: str
    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class StaleOutcome(Event):
    """An outcome came too late: somebody else holds the task by now. It was dropped."""

    task_id: int
    type: str
    queue: str


@dataclass(frozen=True, slots=True)
class OutcomeIgnored(Event):
    """A handler went on after its transaction had completed its task, and then raised, or returned something: it counts
    for nothing."""

    task_id: int
    type: str
    queue: str
    what: str


@dataclass(frozen=True, slots=True)
class GhostsReleased(Event):
    """Tasks that the database held for this worker and the worker did not know of were given back."""

    count: int


@dataclass(frozen=True, slots=True)
class TasksRecovered(Event):
    """Tasks of dead workers were given back or buried."""

    returned: int
    buried: int
    workers: int


@dataclass(frozen=True, slots=True)
class ConnectionLost(Event):
    """A statement failed in a way that may pass; it will be tried again."""

    purpose: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConnectionRestored(Event):
    """The database answers again."""

    purpose: str
    tries: int


@dataclass(frozen=True, slots=True)
class HandlerAbandoned(Event):
    """A handler ignored its timeout or its cancellation; it cannot be ended from outside and is left behind."""

    task_id: int
    type: str


@dataclass(frozen=True, slots=True)
class DatabaseNotice(Event):
    """The server said something that a person should read while the schema was migrated."""

    message: str


Subscriber = Callable[[Event], None]
_subscribers: list[Subscriber] = []


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Call this for every event from now on; returns what ends it."""
    _subscribers.append(subscriber)

    def unsubscribe() -> None:
        with suppress(ValueError):
            _subscribers.remove(subscriber)

    return unsubscribe


def emit(event: Event) -> None:
    """Tell everybody who subscribed."""
    for subscriber in tuple(_subscribers):
        try:
            subscriber(event)
        except Exception as error:
            sys.stderr.write(
                f"orchestrator: a subscriber failed on {type(event).__name__}: {type(error).__name__}\n"
            )
