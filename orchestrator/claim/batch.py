"""Claim up to a number of ready tasks under one fresh lease."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import psycopg

from orchestrator.postgres import statement
from orchestrator.task.model import Claimed

CLAIM = statement.load(__file__, "batch.sql")


def new_lease() -> int:
    """Draw a lease: one for each claim statement, never used again."""
    return secrets.randbits(63)


async def batch(
    connection: psycopg.AsyncConnection[Any],
    *,
    lease: int,
    worker_id: UUID,
    queues: Sequence[str],
    batch_size: int,
) -> list[Claimed]:
    """Claim at most `batch_size` tasks under a fresh lease; the first queue of the sequence is served first.

    In order of execution: UPDATE … RETURNING promises none.
    """
    async with connection.cursor(row_factory=claimed, binary=True) as cursor:
        await cursor.execute(
            CLAIM,
            {"lease": lease, "worker_id": worker_id, "queues": list(queues), "batch_size": batch_size},
        )
        tasks = await cursor.fetchall()
    rank = {queue: n for n, queue in enumerate(queues)}
    tasks.sort(key=lambda task: (rank[task.queue], task.position, task.id))
    return tasks


def claimed(_cursor: object) -> Callable[[Sequence[Any]], Claimed]:
    """Make each row of the driver a task."""
    return Claimed._make
