"""Mark a worker asleep or awake in its row."""

from typing import Any
from uuid import UUID

import psycopg

from orchestrator.postgres import statement

IDLE = statement.load(__file__, "idle.sql")


async def idle(connection: psycopg.AsyncConnection[Any], *, worker_id: UUID, seconds: float) -> bool:
    """Ask for rings for the next seconds; 0 removes the mark. False: there is no such worker yet."""
    cursor = await connection.execute(IDLE, {"worker_id": worker_id, "seconds": seconds})
    return cursor.rowcount == 1
