"""Find ghost claims: committed, their reply lost, so that a living worker holds tasks it does not know of."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from orchestrator.postgres import statement
from orchestrator.task.model import Claimed

RECONCILE = statement.load(__file__, "reconcile.sql")


async def reconcile(
    connection: psycopg.AsyncConnection[Any], *, worker_id: UUID, held: Iterable[Claimed]
) -> list[int]:
    """Give back what is ours by the database and not in `held`. Never call it beside a running claim."""
    pairs = [(task.id, task.lease) for task in held]
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(
            RECONCILE,
            {
                "worker_id": worker_id,
                "ids": [task_id for task_id, _ in pairs],
                "leases": [lease for _, lease in pairs],
            },
        )
        return [task_id for (task_id,) in await cursor.fetchall()]
