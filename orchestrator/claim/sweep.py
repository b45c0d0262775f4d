"""Turn scheduled tasks that are due into pending ones. Every worker does it, so none depends on another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator.postgres import statement

SWEEP = statement.load(__file__, "sweep.sql")

# Enough to free a million tasks that are due at one moment in seconds; few enough that no sweep takes long.
BATCH_SIZE = 1000


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep freed, and when the next one is due."""

    moved: int
    queues: tuple[str, ...]
    next_due_seconds: float | None
    ready: bool


async def sweep(connection: psycopg.AsyncConnection[Any], *, queues: Sequence[str]) -> Swept:
    """Free at most one batch. If `moved` is a whole batch, there may be more."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(SWEEP, {"batch_size": BATCH_SIZE, "queues": list(queues)})
        row = await cursor.fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: a SELECT without FROM has one row
    moved, theirs, next_due_seconds, ready = row
    return Swept(moved, tuple(theirs or ()), next_due_seconds, ready)
