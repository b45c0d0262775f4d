"""Claim up to a number of ready tasks under one fresh lease."""

import secrets
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

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
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(
            CLAIM,
            {"lease": lease, "worker_id": worker_id, "queues": list(queues), "batch_size": batch_size},
        )
        rows = await cursor.fetchall()
    rank = {queue: n for n, queue in enumerate(queues)}
    rows.sort(key=lambda row: (rank[row[1]], row[-1], row[0]))
    return [claimed(row, lease) for row in rows]


def claimed(row: tuple[Any, ...], lease: int) -> Claimed:
    (task_id, queue, kind, attempt, max_attempts, losses, priority, timeout_seconds, payload,
     run_at, created_at, tags, metadata, put_back, _position) = row  # fmt: skip
    return Claimed(
        id=task_id,
        lease=lease,
        queue=queue,
        type=kind,
        attempt=attempt,
        max_attempts=max_attempts,
        losses=losses,
        priority=priority,
        timeout_seconds=timeout_seconds,
        payload=payload,
        run_at=run_at,
        created_at=created_at,
        tags=tuple(tags or ()),
        metadata=metadata,
        put_back=put_back,
    )
