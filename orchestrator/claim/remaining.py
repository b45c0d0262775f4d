"""Tell whether queues are empty, for a worker that ends then."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator.postgres import statement

REMAINING = statement.load(__file__, "remaining.sql")


async def remaining(connection: psycopg.AsyncConnection[Any], *, queues: Sequence[str]) -> bool:
    """Return whether any task in these queues is ready, held by a worker, or waiting for a retry."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(REMAINING, {"queues": list(queues)})
        row = await cursor.fetchone()
    return bool(row and row[0])
