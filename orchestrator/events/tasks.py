"""Events of tasks: one for each task, and one for a batch, for subscribers that only count.

The events of single tasks are made only if they have a subscriber. For a worker that runs a hundred thousand tasks a
second, an event for a batch costs next to nothing; one for each task would cost too much.
"""

from dataclasses import dataclass, field
from uuid import UUID

from orchestrator.events.event import Event
from orchestrator.task.tally import Tally


@dataclass(frozen=True, slots=True)
class TaskStarted(Event):
    """An attempt begins."""

    task_id: int
    type: str
    queue: str
    attempt: int
    worker_id: UUID | None = field(default=None, kw_only=True)
    trace_id: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class TaskPayload(Event):
    """The payload of a task when an attempt begins. Only with the setting `log_payloads`."""

    task_id: int
    type: str
    queue: str
    attempt: int
    payload: str


@dataclass(frozen=True, slots=True)
class AttemptEnded(Event):
    """The common fields of the events that report the end of an attempt, once the outcome is written."""

    task_id: int
    type: str
    queue: str
    attempt: int
    worker_id: UUID | None = field(default=None, kw_only=True)
    duration_seconds: float | None = field(default=None, kw_only=True)
    """How long the handler ran; None: it did not begin."""
    trace_id: str | None = field(default=None, kw_only=True)
    """The W3C id of the trace in which the task was enqueued; None: there is none."""


@dataclass(frozen=True, slots=True)
class TaskCompleted(AttemptEnded):
    """A task's success is written."""


@dataclass(frozen=True, slots=True)
class TaskFailed(AttemptEnded):
    """An attempt failed; another one follows."""

    error_class: str
    message: str
    retry_after_seconds: float


@dataclass(frozen=True, slots=True)
class TaskDeadLettered(AttemptEnded):
    """A task has become a dead letter."""

    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class TaskCancelled(AttemptEnded):
    """A task was cancelled by its handler."""

    reason: str


@dataclass(frozen=True, slots=True)
class TaskSnoozed(AttemptEnded):
    """A handler asked to run again later."""

    after_seconds: float


@dataclass(frozen=True, slots=True)
class TaskPutBack(AttemptEnded):
    """A claimed task has a type that this worker does not know; it waits for a worker that knows it."""

    after_seconds: float


@dataclass(frozen=True, slots=True)
class TaskReleased(AttemptEnded):
    """A worker gave a task back unfinished. The attempt does not count."""


@dataclass(frozen=True, slots=True)
class OutcomesWritten(Event):
    """Some outcomes are written: by a worker in a batch, by a handler in its own transaction, or by the leader for a
    worker. `took_seconds`: the duration of the batch; None: it was no batch."""

    worker_id: UUID
    """The worker that wrote them."""
    took_seconds: float | None
    tallies: tuple[Tally, ...]
    """One tally for each queue and type."""


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """A running attempt lost its task: a manual change cancelled, requeued or deleted it, or another worker claimed it.
    The worker informs the handler, and drops its outcome."""

    task_id: int
    type: str
    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class StaleOutcome(Event):
    """An outcome arrived too late: its lease was void. The worker dropped it."""

    task_id: int
    type: str
    queue: str


@dataclass(frozen=True, slots=True)
class OutcomeIgnored(Event):
    """A handler completed its task in its own transaction, and then raised an error or returned a value. The worker
    ignores that."""

    task_id: int
    type: str
    queue: str
    what: str
