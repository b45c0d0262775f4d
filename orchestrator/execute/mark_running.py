"""Mark claimed tasks `running`, and return those whose leases still hold."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator.postgres import statement
from orchestrator.task.claimed import Claimed

BEGIN = statement.load(__file__, "mark_running.sql")


async def begin(
    connection: psycopg.AsyncConnection[Any], tasks: Sequence[Claimed], *, ages: Sequence[float] | None = None
) -> set[int]:
    """Mark these tasks `running`. Their handlers started `ages` seconds ago (None: they are about to start). Return the
    ids of those that are marked; the others have lost their leases, or another transaction has them locked."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(BEGIN, given(tasks, ages))
        return {task_id for (task_id,) in await cursor.fetchall()}


def begin_now(
    connection: psycopg.Connection[Any], tasks: Sequence[Claimed], *, ages: Sequence[float]
) -> set[int]:
    """The same as `begin`, on a thread, while the loop is blocked."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(BEGIN, given(tasks, ages))
        return {task_id for (task_id,) in cursor.fetchall()}


def given(tasks: Sequence[Claimed], ages: Sequence[float] | None) -> dict[str, Any]:
    ordered = sorted(zip(tasks, ages or [0.0] * len(tasks), strict=True))
    return {
        "ids": [task.id for task, _ in ordered],
        "leases": [task.lease for task, _ in ordered],
        "ages": [age for _, age in ordered],
    }
