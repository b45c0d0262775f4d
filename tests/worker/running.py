"""Run workers in this process, and wait for events: by conditions with deadlines, never by sleeps."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row

from orchestrator import Orchestrator, events
from orchestrator.task.backoff import Backoff
from tests.patience import PATIENCE_SECONDS

AT_ONCE = Backoff(base_seconds=0.0, jitter=0.0)
"""Retry without a wait."""

DEAD = "UPDATE orchestrator.workers SET state = 'dead', beat_at = now() - interval '1 hour'"
"""Declare every worker dead."""


def run_until_empty(app: Orchestrator, **options: Any) -> None:
    """Run a worker until its queues are empty."""

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await app.arun_worker(until_empty=True, **options)

    asyncio.run(run())


@asynccontextmanager
async def working(app: Orchestrator, **options: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run a worker during the block, and stop it cleanly afterwards. A failed worker fails the test."""
    worker = asyncio.create_task(app.arun_worker(**options))
    try:
        yield worker
    finally:
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(worker, PATIENCE_SECONDS)


async def until(holds: Callable[[], object], what: str, *, seconds: float = PATIENCE_SECONDS) -> None:
    """Return as soon as a condition holds. Fail with the description if it does not hold in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.003)


@contextmanager
def recorded(*kinds: type[events.Event]) -> Iterator[list[Any]]:
    """Collect the events of these kinds during the block; without kinds, all events."""
    seen: list[Any] = []

    def note(event: events.Event) -> None:
        if not kinds or isinstance(event, kinds):
            seen.append(event)

    unsubscribe = events.subscribe(note)
    try:
        yield seen
    finally:
        unsubscribe()


def task(connection: psycopg.Connection, task_id: int) -> Any:
    """Return a task's row, its columns as attributes."""
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        row: NamedTuple | None = cursor.execute(
            "SELECT * FROM orchestrator.tasks WHERE id = %s", [task_id]
        ).fetchone()
    assert row is not None, f"there is no task {task_id}"
    return row


def status(connection: psycopg.Connection, task_id: int) -> str:
    """Return a task's status."""
    return str(value(connection, "SELECT status FROM orchestrator.tasks WHERE id = %s", task_id))


def statuses(connection: psycopg.Connection) -> dict[str, int]:
    """Count the tasks by status."""
    rows = connection.execute("SELECT status, count(*) FROM orchestrator.tasks GROUP BY status").fetchall()
    return {name: int(count) for name, count in rows}


def value(connection: psycopg.Connection, statement: LiteralString, *params: object) -> Any:
    """Return the single value of a statement."""
    row = connection.execute(statement, params).fetchone()
    assert row is not None
    return row[0]


def attempts(connection: psycopg.Connection, task_id: int) -> list[tuple[int, str]]:
    """Return the recorded attempts of a task that did not succeed: their numbers and outcomes."""
    rows = connection.execute(
        "SELECT attempt, outcome FROM orchestrator.attempts WHERE task_id = %s ORDER BY id", [task_id]
    ).fetchall()
    return [(int(number), str(outcome)) for number, outcome in rows]


def hire(connection: psycopg.Connection) -> UUID:
    """Add the row of a live worker on another host."""
    worker_id = value(
        connection,
        "INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, beat_at)"
        " VALUES (gen_random_uuid(), 'elsewhere', 1, '0', '{default}', 1, now() + interval '1 hour') RETURNING id",
    )
    assert isinstance(worker_id, UUID)
    return worker_id


def asleep(connection: psycopg.Connection) -> bool:
    """Return whether the only worker is marked idle."""
    return bool(value(connection, "SELECT count(*) FROM orchestrator.workers WHERE idle_until > now()"))
