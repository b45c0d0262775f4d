"""Turn scheduled tasks that have become due into pending ones. Every worker does it, so nobody waits for one."""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator.postgres import statement

SWEEP = statement.load(__file__, "sweep.sql")

# Enough that a million tasks due at one moment are freed in seconds, few enough that no sweep takes long.
BATCH_SIZE = 1000


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep freed, and when the next one is worth while."""

    moved: int
    queues: tuple[str, ...]
    next_due_seconds: float | None


async def sweep(connection: psycopg.AsyncConnection[Any]) -> Swept:
    """Free at most one batch; when `moved` is the whole batch, there may be more."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(SWEEP, {"batch_size": BATCH_SIZE})
        row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - for the type checker: a SELECT without FROM has one row
    moved, queues, next_due_seconds = row
    return Swept(moved, tuple(queues or ()), next_due_seconds)
