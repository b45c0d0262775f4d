"""Emit the events of accepted outcomes: one for a batch, and one for each outcome if there is a subscriber for it."""

from collections.abc import Mapping, Sequence
from typing import TypedDict, assert_never
from uuid import UUID

from orchestrator import events
from orchestrator.task import trace
from orchestrator.task.outcome import (
    Cancelled,
    Completed,
    DeadLettered,
    End,
    Failed,
    Lost,
    Outcome,
    PutBack,
    Recorded,
    Released,
    Snoozed,
)
from orchestrator.task.tally import tallies

# The event of each end.
EVENT_OF_END: Mapping[type[End], type[events.Event]] = {
    Completed: events.TaskCompleted,
    Recorded: events.TaskCompleted,
    Failed: events.TaskFailed,
    DeadLettered: events.TaskDeadLettered,
    Cancelled: events.TaskCancelled,
    Snoozed: events.TaskSnoozed,
    PutBack: events.TaskPutBack,
    Released: events.TaskReleased,
}


class More(TypedDict):
    """The fields that all these events share."""

    worker_id: UUID
    duration_seconds: float | None
    trace_id: str | None


def announce(outcomes: Sequence[Outcome], *, worker_id: UUID, took_seconds: float | None = None) -> None:
    """Emit the events of written outcomes; `took_seconds`: of the batch. Skips events without a subscriber."""
    if outcomes and events.wanted(events.OutcomesWritten):
        events.emit(events.OutcomesWritten(worker_id, took_seconds, tallies(outcomes)))
    if wanted := {end for end, kind in EVENT_OF_END.items() if events.wanted(kind)}:
        for outcome in outcomes:
            if type(outcome.end) in wanted:
                events.emit(event_of(outcome, worker_id))


def event_of(outcome: Outcome, worker_id: UUID) -> events.AttemptEnded:
    """Return the event of an outcome."""
    task = outcome.task
    name = (task.id, task.type, task.queue, task.attempt)
    more = More(
        worker_id=worker_id,
        duration_seconds=None if outcome.begun_at is None else outcome.ended_at - outcome.begun_at,
        trace_id=trace.id_of(task.trace_context),
    )
    match outcome.end:
        case Completed() | Recorded():
            return events.TaskCompleted(*name, **more)
        case Failed(fault, _, after_seconds):
            return events.TaskFailed(*name, fault.class_name, fault.message, after_seconds, **more)
        case DeadLettered(fault, _):
            return events.TaskDeadLettered(*name, fault.class_name, fault.message, **more)
        case Cancelled(reason):
            return events.TaskCancelled(*name, reason, **more)
        case Snoozed(after_seconds):
            return events.TaskSnoozed(*name, after_seconds, **more)
        case PutBack(_, after_seconds, _):
            return events.TaskPutBack(*name, after_seconds, **more)
        case Released():
            return events.TaskReleased(*name, **more)
        case Lost():
            raise AssertionError("events.LeaseLost reports it")
        case _:
            assert_never(outcome.end)
