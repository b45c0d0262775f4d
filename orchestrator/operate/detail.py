"""One task with all that is known of it: its row whole, its timeline, and every attempt that did not end well.

A task that is gone has left records, of attempts and of hands, which are shown as long as they are kept.
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

# A payload that print as more was put there past every check, and would fill the memory of who looks.
TEXT_BYTES_MAX = 1_000_000
# Of a task that failed for years, the newest.
RECORDS_MAX = 500


@dataclass(frozen=True, slots=True)
class Task:
    """The row. What is JSON is its text, and None also where that is longer than TEXT_BYTES_MAX."""

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
    """Something that happened to it."""

    at: datetime
    event: str
    actor: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that did not end well."""

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
    """All of it; without a task: what is still known of one that is gone."""

    task: Task | None
    timeline: tuple[Moment, ...]
    attempts: tuple[Attempt, ...]


def detail(connection: psycopg.Connection[Any], task_id: int) -> Detail:
    """Return what is known of a task; nothing at all where there never was one."""
    given = {"id": task_id, "bytes": TEXT_BYTES_MAX, "most": RECORDS_MAX}
    with translated(task_id):
        with connection.cursor(row_factory=class_row(Task)) as cursor:
            task = cursor.execute(DETAIL, given).fetchone()
        with connection.cursor(row_factory=class_row(Moment)) as cursor:
            timeline = cursor.execute(TIMELINE, given).fetchall()
        with connection.cursor(row_factory=class_row(Attempt)) as cursor:
            attempts = cursor.execute(ATTEMPTS, given).fetchall()
    return Detail(task, tuple(timeline), tuple(attempts))
