"""Wake other workers, for tasks that this one has found and does not take."""

from collections.abc import Sequence
from typing import Any

import psycopg

from orchestrator.postgres import statement

RING = statement.load(__file__, "ring.sql")


async def ring(connection: psycopg.AsyncConnection[Any], *, queues: Sequence[str]) -> None:
    """Send one notification for each of these queues that has a sleeping worker."""
    await connection.execute(RING, {"queues": list(queues)})
