"""Write how far running tasks have come: a hint for people, fenced by the lease. Losing one does no harm."""

from collections.abc import Mapping
from typing import Any

import psycopg

from orchestrator.postgres import statement

REPORT = statement.load(__file__, "progress.sql")

# A task and its lease, and the last progress that its handler reported, as JSON text.
Reports = Mapping[tuple[int, int], str]


async def report(connection: psycopg.AsyncConnection[Any], reports: Reports) -> None:
    """Write these reports, in one statement."""
    ordered = sorted(reports.items())
    await connection.execute(
        REPORT,
        {
            "ids": [task_id for (task_id, _), _ in ordered],
            "leases": [lease for (_, lease), _ in ordered],
            "values": [value for _, value in ordered],
        },
    )
