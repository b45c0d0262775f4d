"""Read one task, and cancel one: both sync and async, with shared statements and row conversion."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator.errors import DatabaseUnavailable, OperationRefused, TaskExpired
from orchestrator.postgres import statement, transient_errors
from orchestrator.task import payload
from orchestrator.task.outcome import Fault

STATE = statement.load(__file__, "state.sql", "read")
CANCEL = statement.load(__file__, "state.sql", "cancel")

NO_TASK = "OR004"
NOT_ALLOWED = "42501"
ALLOWED = "To look at tasks a role needs orchestrator_reader, to change them orchestrator_operator."


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task as it was when the database was read."""

    status: str
    type: str
    queue: str
    attempt: int
    max_attempts: int
    result: Any
    error: Fault | None
    progress: Any
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancelled_because: str | None


def current(connection: psycopg.Connection[Any], task_id: int) -> TaskState | None:
    """Return the task, or None if it does not exist."""
    with translated(task_id), connection.cursor(row_factory=tuple_row) as cursor:
        return state_of(cursor.execute(STATE, {"id": task_id}).fetchone())


async def acurrent(connection: psycopg.AsyncConnection[Any], task_id: int) -> TaskState | None:
    """The same on the event loop."""
    with translated(task_id):
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(STATE, {"id": task_id})
            return state_of(await cursor.fetchone())


def cancel(connection: psycopg.Connection[Any], task_id: int, *, reason: str | None) -> None:
    """Cancel the task; OperationRefused says why it cannot be."""
    with translated(task_id):
        connection.execute(CANCEL, {"id": task_id, "reason": reason})


async def acancel(connection: psycopg.AsyncConnection[Any], task_id: int, *, reason: str | None) -> None:
    """The same on the event loop."""
    with translated(task_id):
        await connection.execute(CANCEL, {"id": task_id, "reason": reason})


@contextmanager
def translated(task_id: int) -> Iterator[None]:
    """Raise the database's refusals and failures as errors of our own."""
    try:
        yield
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error).strip()
        if error.sqlstate == NO_TASK:
            raise TaskExpired(task_id) from error
        if transient_errors.is_transient(error):
            raise DatabaseUnavailable(f"{message}; ask again") from error
        hint = ALLOWED if error.sqlstate == NOT_ALLOWED else error.diag.message_hint
        raise OperationRefused(message, sqlstate=error.sqlstate, hint=hint) from error


def state_of(row: tuple[Any, ...] | None) -> TaskState | None:
    if row is None:
        return None
    status, kind, queue, attempt, max_attempts, result, error, progress, *times = row
    return TaskState(
        status,
        kind,
        queue,
        attempt,
        max_attempts,
        None if result is None else payload.decode_any(result, root="result"),
        None if error is None else fault_of(payload.decode(error, root="error")),
        None if progress is None else payload.decode_any(progress, root="progress"),
        *times,
    )


def fault_of(error: dict[str, Any]) -> Fault:
    """Parse an error; one that a manual statement wrote may lack a part."""
    return Fault(str(error.get("class", "")), str(error.get("message", "")), str(error.get("traceback", "")))
