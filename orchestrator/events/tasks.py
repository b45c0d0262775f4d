"""What happens to tasks: one by one, and, for who only counts, a batch at a time.

The first are made only for who wants to know; a worker that runs a hundred thousand tasks a second can tell of a batch
for next to nothing, and of each task it cannot.
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
    """What a task brought along, as an attempt begins; told only with the setting `log_payloads`."""

    task_id: int
    type: str
    queue: str
    attempt: int
    payload: str


@dataclass(frozen=True, slots=True)
class AttemptEnded(Event):
    """What all have in common that tell how an attempt came to its end, once that is written down."""

    task_id: int
    type: str
    queue: str
    attempt: int
    worker_id: UUID | None = field(default=None, kw_only=True)
    duration_seconds: float | None = field(default=None, kw_only=True)
    """For how long the handler ran; None: it did not begin."""
    trace_id: str | None = field(default=None, kw_only=True)
    """Of the trace that the task was enqueued in, as W3C writes it; None: of none."""


@dataclass(frozen=True, slots=True)
class TaskCompleted(AttemptEnded):
    """A task's success is written down."""


@dataclass(frozen=True, slots=True)
class TaskFailed(AttemptEnded):
    """An attempt failed; there will be another."""

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
    """A handler asked to be called later."""

    after_seconds: float


@dataclass(frozen=True, slots=True)
class TaskPutBack(AttemptEnded):
    """A claimed task is of a type this worker does not know; it waits for one that does."""

    after_seconds: float


@dataclass(frozen=True, slots=True)
class TaskReleased(AttemptEnded):
    """A task was given back unfinished, its attempt not counted."""


@dataclass(frozen=True, slots=True)
class OutcomesWritten(Event):
    """Some outcomes are written: a batch of a worker's, the one that a handler wrote itself, or those that the leader
    wrote for a worker that did not. `took_seconds`: what a batch took; None: it was none."""

    worker_id: UUID
    """Who has written them."""
    took_seconds: float | None
    tallies: tuple[Tally, ...]
    """One for each queue and type."""


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
