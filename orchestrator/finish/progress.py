"""Write how far running tasks have come: a hint for people, fenced by the lease. Losing one does no harm."""

from collections.abc import Mapping
from typing import Any

import psycopg

from orchestrator.postgres import statement

REPORT = statement.load(__file__, "progress.sql")

Key = tuple[int, int]
"""A task and its lease."""
Reports = Mapping[Key, str]
"""The last progress that each handler reported, as JSON text."""


async def report(connection: psycopg.AsyncConnection[Any], reports: Reports) -> list[Key]:
    """Write these reports, in one statement; return those that were not written because of a lock."""
    ordered = sorted(reports.items())
    cursor = await connection.execute(
        REPORT,
        {
            "ids": [task_id for (task_id, _), _ in ordered],
            "leases": [lease for (_, lease), _ in ordered],
            "values": [value for _, value in ordered],
        },
    )
    return await cursor.fetchall()
