"""Everything that happens, as frozen dataclasses. Stations emit; who wants to know subscribes.

A subscriber runs on the emitter's thread and must be quick. One that raises is left out of that event, and
never hurts a task.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from orchestrator.events.attempting import AttemptEnded as AttemptEnded
from orchestrator.events.attempting import LeaseLost as LeaseLost
from orchestrator.events.attempting import OutcomeIgnored as OutcomeIgnored
from orchestrator.events.attempting import OutcomesWritten as OutcomesWritten
from orchestrator.events.attempting import StaleOutcome as StaleOutcome
from orchestrator.events.attempting import TaskBuried as TaskBuried
from orchestrator.events.attempting import TaskCancelled as TaskCancelled
from orchestrator.events.attempting import TaskCompleted as TaskCompleted
from orchestrator.events.attempting import TaskFailed as TaskFailed
from orchestrator.events.attempting import TaskPutBack as TaskPutBack
from orchestrator.events.attempting import TaskReleased as TaskReleased
from orchestrator.events.attempting import TaskSnoozed as TaskSnoozed
from orchestrator.events.attempting import TaskStarted as TaskStarted
from orchestrator.events.event import Event as Event
from orchestrator.events.family import ChildDied as ChildDied
from orchestrator.events.family import ChildEnded as ChildEnded
from orchestrator.events.family import ChildKilled as ChildKilled
from orchestrator.events.family import ChildrenStopping as ChildrenStopping
from orchestrator.events.family import ChildStarted as ChildStarted
from orchestrator.events.housekeeping import GaugesSampled as GaugesSampled
from orchestrator.events.housekeeping import LeafDropped as LeafDropped
from orchestrator.events.housekeeping import RowsExpired as RowsExpired
from orchestrator.events.housekeeping import TimeoutsEnforced as TimeoutsEnforced
from orchestrator.events.leading import DutyFailed as DutyFailed
from orchestrator.events.leading import DutyPutOff as DutyPutOff
from orchestrator.events.leading import LeaderElected as LeaderElected
from orchestrator.events.leading import LeaderResigned as LeaderResigned
from orchestrator.events.leading import LeaderSteppedDown as LeaderSteppedDown
from orchestrator.events.working import DatabaseReplaced as DatabaseReplaced
from orchestrator.events.working import ListenDeaf as ListenDeaf
from orchestrator.events.working import LoopBlocked as LoopBlocked
from orchestrator.events.working import LoopFree as LoopFree
from orchestrator.events.working import QueuesPaused as QueuesPaused
from orchestrator.events.working import WorkerCutOff as WorkerCutOff
from orchestrator.events.working import WorkerDeclaredDead as WorkerDeclaredDead
from orchestrator.events.working import WorkerStarted as WorkerStarted
from orchestrator.events.working import WorkerStopped as WorkerStopped
from orchestrator.events.working import WorkerStopping as WorkerStopping
from orchestrator.events.working import WorkerWornOut as WorkerWornOut


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
_subscribers: list[tuple[Subscriber, frozenset[type[Event]] | None]] = []
# Who wants to know of which kind; found once, for as long as nobody comes or goes.
_routes: dict[type[Event], tuple[Subscriber, ...]] = {}
# By thread: what is told only when a transaction has been committed.
_kept = threading.local()


def subscribe(subscriber: Subscriber, *, to: Iterable[type[Event]] | None = None) -> Callable[[], None]:
    """Call this for every event from now on, or for those of some kinds; returns what ends it."""
    entry = (subscriber, None if to is None else frozenset(to))
    _subscribers.append(entry)
    _forget_routes()

    def unsubscribe() -> None:
        with suppress(ValueError):
            _subscribers.remove(entry)
        _forget_routes()

    return unsubscribe


def wanted(kind: type[Event]) -> bool:
    """Tell whether anybody wants to know of such events: who emits thousands need not make them for nobody."""
    return bool(_route(kind))


def emit(event: Event) -> None:
    """Tell everybody who subscribed."""
    if (kept := getattr(_kept, "events", None)) is not None:
        kept.append(event)
        return
    for subscriber in _route(type(event)):
        try:
            subscriber(event)
        except Exception as error:
            sys.stderr.write(
                f"orchestrator: a subscriber failed on {type(event).__name__}: {type(error).__name__}\n"
            )


@contextmanager
def when_done() -> Iterator[None]:
    """Tell what this thread emits in here at the end, and nothing of it if that is an error: for a transaction."""
    _kept.events = events = list[Event]()
    try:
        yield
    finally:
        _kept.events = None
    for event in events:
        emit(event)


def _route(kind: type[Event]) -> tuple[Subscriber, ...]:
    routes = _routes
    found = routes.get(kind)
    if found is None:
        found = tuple(who for who, kinds in tuple(_subscribers) if kinds is None or kind in kinds)
        # In the dictionary of before we looked: should somebody have subscribed meanwhile, another one counts.
        routes[kind] = found
    return found


def _forget_routes() -> None:
    global _routes
    _routes = {}
