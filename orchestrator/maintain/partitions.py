"""Have the leaves for finished tasks ready before the day begins."""

from typing import Any

import psycopg

from orchestrator.postgres import statement

PARTITIONS = statement.load(__file__, "partitions.sql")


def partitions(connection: psycopg.Connection[Any]) -> bool:
    """Make what is missing of today and the next seven days."""
    connection.execute(PARTITIONS)
    return False
