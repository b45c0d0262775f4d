"""One task with all its records: its whole row, its timeline, and every attempt that did not complete.

A deleted task leaves records of its attempts and of manual statements; they are shown as long as they are kept.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from orchestrator.operate.state import translated
from orchestrator.postgres import statement

DETAIL = statement.load(__file__, "detail.sql")
TIMELINE = statement.load(__file__, "timeline.sql")
ATTEMPTS = statement.load(__file__, "attempts.sql")

# A payload with a longer text got past every check, and would fill the memory of the reader.
TEXT_BYTES_MAX = 1_000_000
# The newest attempts, for a task that failed for years.
RECORDS_MAX = 500


@dataclass(frozen=True, slots=True)
class Task:
    """The row. JSON columns are text; None also if the text is longer than TEXT_BYTES_MAX."""

    id: int
    status: str
    queue: str
    type: str
    priority: int
    attempt: int
    max_attempts: int
    losses: int
    timeout: timedelta
    created_at: datetime
    run_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker_id: UUID | None
    worker_host: str | None
    worker_pid: int | None
    key: str | None
    tags: list[str] | None
    payload: str | None
    payload_bytes: int
    metadata: str | None
    result: str | None
    progress: str | None
    trace_context: str | None
    error_class: str | None
    error_message: str | None
    error_traceback: str | None


@dataclass(frozen=True, slots=True)
class Moment:
    """One event of the task's timeline."""

    at: datetime
    event: str
    actor: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that did not complete."""

    attempt: int
    outcome: str
    started_at: datetime | None
    finished_at: datetime
    worker_id: UUID | None
    error_class: str | None
    error_message: str | None
    error_traceback: str | None


@dataclass(frozen=True, slots=True)
class Detail:
    """The task and its records; without the task if it is deleted."""

    task: Task | None
    timeline: tuple[Moment, ...]
    attempts: tuple[Attempt, ...]


def detail(connection: psycopg.Connection[Any], task_id: int) -> Detail:
    """Return the records of a task; empty if it never existed."""
    given = {"id": task_id, "bytes": TEXT_BYTES_MAX, "most": RECORDS_MAX}
    with translated(task_id):
        with connection.cursor(row_factory=class_row(Task)) as cursor:
            task = cursor.execute(DETAIL, given).fetchone()
        with connection.cursor(row_factory=class_row(Moment)) as cursor:
            timeline = cursor.execute(TIMELINE, given).fetchall()
        with connection.cursor(row_factory=class_row(Attempt)) as cursor:
            attempts = cursor.execute(ATTEMPTS, given).fetchall()
    return Detail(task, tuple(timeline), tuple(attempts))
