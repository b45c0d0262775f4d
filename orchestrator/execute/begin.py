"""Mark claimed tasks as running, and learn which may still start."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator.postgres import statement
from orchestrator.task.model import Claimed

BEGIN = statement.load(__file__, "begin.sql")


async def begin(connection: psycopg.AsyncConnection[Any], tasks: Sequence[Claimed]) -> list[Claimed]:
    """Return those tasks, in their order, whose lease still holds; they are marked running now."""
    ordered = sorted(tasks, key=lambda task: task.id)
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(
            BEGIN, {"ids": [task.id for task in ordered], "leases": [task.lease for task in ordered]}
        )
        begun = {task_id for (task_id,) in await cursor.fetchall()}
    return [task for task in tasks if task.id in begun]
