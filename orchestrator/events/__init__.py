"""The events, as frozen dataclasses. Each part of the package emits events; subscribers receive them.

Our own subscribers (log lines, metrics) run on the emitter's thread and must be quick. A user's subscriber runs on its
own thread (`aside`). A subscriber that raises misses that event, and never harms a task.
"""

from dataclasses import dataclass

from orchestrator.events.bus import Subscriber as Subscriber
from orchestrator.events.bus import emit as emit
from orchestrator.events.bus import kinds as kinds
from orchestrator.events.bus import subscribe as subscribe
from orchestrator.events.bus import wanted as wanted
from orchestrator.events.bus import when_done as when_done
from orchestrator.events.child_processes import ChildDied as ChildDied
from orchestrator.events.child_processes import ChildEnded as ChildEnded
from orchestrator.events.child_processes import ChildKilled as ChildKilled
from orchestrator.events.child_processes import ChildrenStopping as ChildrenStopping
from orchestrator.events.child_processes import ChildStarted as ChildStarted
from orchestrator.events.duties import GaugesSampled as GaugesSampled
from orchestrator.events.duties import LeafDropped as LeafDropped
from orchestrator.events.duties import RowsExpired as RowsExpired
from orchestrator.events.duties import TimeoutsEnforced as TimeoutsEnforced
from orchestrator.events.event import Event as Event
from orchestrator.events.leader import DutyFailed as DutyFailed
from orchestrator.events.leader import DutyPutOff as DutyPutOff
from orchestrator.events.leader import DutyRowSkipped as DutyRowSkipped
from orchestrator.events.leader import LeaderElected as LeaderElected
from orchestrator.events.leader import LeaderResigned as LeaderResigned
from orchestrator.events.leader import LeaderSteppedDown as LeaderSteppedDown
from orchestrator.events.measurements import ClaimAnswered as ClaimAnswered
from orchestrator.events.measurements import LoopTurned as LoopTurned
from orchestrator.events.measurements import NotificationHeard as NotificationHeard
from orchestrator.events.measurements import TasksEnqueued as TasksEnqueued
from orchestrator.events.measurements import WorkersRung as WorkersRung
from orchestrator.events.subscriber import EventsDropped as EventsDropped
from orchestrator.events.subscriber import SubscriberFailed as SubscriberFailed
from orchestrator.events.subscriber import aside as aside
from orchestrator.events.subscriber import settle as settle
from orchestrator.events.tasks import AttemptEnded as AttemptEnded
from orchestrator.events.tasks import LeaseLost as LeaseLost
from orchestrator.events.tasks import OutcomeIgnored as OutcomeIgnored
from orchestrator.events.tasks import OutcomesWritten as OutcomesWritten
from orchestrator.events.tasks import StaleOutcome as StaleOutcome
from orchestrator.events.tasks import TaskCancelled as TaskCancelled
from orchestrator.events.tasks import TaskCompleted as TaskCompleted
from orchestrator.events.tasks import TaskDeadLettered as TaskDeadLettered
from orchestrator.events.tasks import TaskFailed as TaskFailed
from orchestrator.events.tasks import TaskPayload as TaskPayload
from orchestrator.events.tasks import TaskPutBack as TaskPutBack
from orchestrator.events.tasks import TaskReleased as TaskReleased
from orchestrator.events.tasks import TaskSnoozed as TaskSnoozed
from orchestrator.events.tasks import TaskStarted as TaskStarted
from orchestrator.events.workers import DatabaseReplaced as DatabaseReplaced
from orchestrator.events.workers import ListenDeaf as ListenDeaf
from orchestrator.events.workers import LoopBlocked as LoopBlocked
from orchestrator.events.workers import LoopFree as LoopFree
from orchestrator.events.workers import MetricsServed as MetricsServed
from orchestrator.events.workers import ProcessAborted as ProcessAborted
from orchestrator.events.workers import QueuesPaused as QueuesPaused
from orchestrator.events.workers import ServerAwaited as ServerAwaited
from orchestrator.events.workers import WorkerCutOff as WorkerCutOff
from orchestrator.events.workers import WorkerDeclaredDead as WorkerDeclaredDead
from orchestrator.events.workers import WorkerHung as WorkerHung
from orchestrator.events.workers import WorkerStarted as WorkerStarted
from orchestrator.events.workers import WorkerStopped as WorkerStopped
from orchestrator.events.workers import WorkerStopping as WorkerStopping
from orchestrator.events.workers import WorkerWornOut as WorkerWornOut


@dataclass(frozen=True, slots=True)
class GhostsReleased(Event):
    """A worker gave back tasks that it held in the database and did not know of."""

    count: int


@dataclass(frozen=True, slots=True)
class TasksRecovered(Event):
    """Tasks of dead workers were given back or made dead letters."""

    returned: int
    dead_lettered: int
    workers: int


@dataclass(frozen=True, slots=True)
class ConnectionLost(Event):
    """A statement failed for a temporary reason. The worker tries it again."""

    purpose: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConnectionRestored(Event):
    """The database answers again."""

    purpose: str
    tries: int


@dataclass(frozen=True, slots=True)
class HandlerAbandoned(Event):
    """A handler goes on after its timeout or its cancellation. The worker cannot end it, and abandons it."""

    task_id: int
    type: str


@dataclass(frozen=True, slots=True)
class DatabaseNotice(Event):
    """The server sent a notice for the operator during a migration."""

    message: str
