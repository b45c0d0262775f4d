"""Say what an accepted outcome means, as an event."""

from typing import assert_never

from orchestrator import events
from orchestrator.task.outcome import (
    Buried,
    Cancelled,
    Completed,
    Failed,
    Outcome,
    PutBack,
    Recorded,
    Released,
    Snoozed,
)


def announce(outcome: Outcome) -> None:
    """Emit the event of an outcome that is written."""
    task = outcome.task
    name = (task.id, task.type, task.queue)
    match outcome.end:
        case Completed() | Recorded():
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
