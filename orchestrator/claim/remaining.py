"""Tell whether queues have run empty, for a worker that ends when they have."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator.postgres import statement

REMAINING = statement.load(__file__, "remaining.sql")


async def remaining(connection: psycopg.AsyncConnection[Any], *, queues: Sequence[str]) -> bool:
    """Return whether anything is ready, held by any worker, or waiting for a retry in these queues."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(REMAINING, {"queues": list(queues)})
        row = await cursor.fetchone()
    return bool(row and row[0])
