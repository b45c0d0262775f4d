"""Everything that happens, as frozen dataclasses. Stations emit; who wants to know subscribes.

A subscriber of ours (lines, numbers) runs on the emitter's thread and must be quick; a user's runs on a thread of its
own (`aside`). One that raises is left out of that event, and never hurts a task.
"""

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
from orchestrator.events.attempting import TaskPayload as TaskPayload
from orchestrator.events.attempting import TaskPutBack as TaskPutBack
from orchestrator.events.attempting import TaskReleased as TaskReleased
from orchestrator.events.attempting import TaskSnoozed as TaskSnoozed
from orchestrator.events.attempting import TaskStarted as TaskStarted
from orchestrator.events.bus import Subscriber as Subscriber
from orchestrator.events.bus import emit as emit
from orchestrator.events.bus import kinds as kinds
from orchestrator.events.bus import subscribe as subscribe
from orchestrator.events.bus import wanted as wanted
from orchestrator.events.bus import when_done as when_done
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
from orchestrator.events.leading import DutyRowSkipped as DutyRowSkipped
from orchestrator.events.leading import LeaderElected as LeaderElected
from orchestrator.events.leading import LeaderResigned as LeaderResigned
from orchestrator.events.leading import LeaderSteppedDown as LeaderSteppedDown
from orchestrator.events.measuring import ClaimAnswered as ClaimAnswered
from orchestrator.events.measuring import LoopTurned as LoopTurned
from orchestrator.events.measuring import NotificationHeard as NotificationHeard
from orchestrator.events.measuring import TasksEnqueued as TasksEnqueued
from orchestrator.events.measuring import WorkersRung as WorkersRung
from orchestrator.events.subscriber import EventsDropped as EventsDropped
from orchestrator.events.subscriber import SubscriberFailed as SubscriberFailed
from orchestrator.events.subscriber import aside as aside
from orchestrator.events.subscriber import settle as settle
from orchestrator.events.working import DatabaseReplaced as DatabaseReplaced
from orchestrator.events.working import ListenDeaf as ListenDeaf
from orchestrator.events.working import LoopBlocked as LoopBlocked
from orchestrator.events.working import LoopFree as LoopFree
from orchestrator.events.working import MetricsServed as MetricsServed
from orchestrator.events.working import ProcessGivenUp as ProcessGivenUp
from orchestrator.events.working import QueuesPaused as QueuesPaused
from orchestrator.events.working import ServerAwaited as ServerAwaited
from orchestrator.events.working import WorkerCutOff as WorkerCutOff
from orchestrator.events.working import WorkerDeclaredDead as WorkerDeclaredDead
from orchestrator.events.working import WorkerHung as WorkerHung
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
