"""Say what an accepted outcome means, as an event."""

from collections.abc import Sequence
from typing import assert_never

from orchestrator import events
from orchestrator.task.outcome import (
    Buried,
    Cancelled,
    Completed,
    Failed,
    Outcome,
    PutBack,
    Released,
    Snoozed,
)


def announce_all(outcomes: Sequence[Outcome]) -> None:
    """Emit the events of outcomes that are written. Of a success nobody may want to know."""
    if events.wanted(events.TaskCompleted):
        for outcome in outcomes:
            announce(outcome)
        return
    for outcome in outcomes:
        if type(outcome.end) is not Completed:
            announce(outcome)


def announce(outcome: Outcome) -> None:
    """Emit the event of an outcome that is written."""
    task = outcome.task
    name = (task.id, task.type, task.queue)
    match outcome.end:
        case Completed():
            events.emit(events.TaskCompleted(*name, task.attempt))
        case Failed(fault, _, after_seconds):
            events.emit(
                events.TaskFailed(*name, task.attempt, fault.class_name, fault.message, after_seconds)
            )
        case Buried(fault, _):
            events.emit(events.TaskBuried(*name, task.attempt, fault.class_name, fault.message))
        case Cancelled(reason):
            events.emit(events.TaskCancelled(*name, reason))
        case Snoozed(after_seconds):
            events.emit(events.TaskSnoozed(*name, after_seconds))
        case PutBack(_, after_seconds, _):
            events.emit(events.TaskPutBack(*name, after_seconds))
        case Released():
            events.emit(events.TaskReleased(*name))
        case _:
            assert_never(outcome.end)
