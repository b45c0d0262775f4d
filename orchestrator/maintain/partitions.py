"""Make the leaves for finished tasks before their day begins, and drop the leaves that no queue keeps any longer.

A drop takes a moment, whatever the leaf holds. But until it commits, no task can finish. So it comes last, one leaf a
call, and does not wait for a transaction that reads the leaf: the next round tries again. That is no failure; the
transaction goes on as if no leaf had been due.
"""

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.postgres import statement

PARTITIONS = statement.load(__file__, "partitions.sql", "make_ahead")
OLD_PARTITION = statement.load(__file__, "partitions.sql", "drop_old")


def partitions(connection: psycopg.Connection[Any]) -> bool:
    """Make the missing leaves of today and the next seven days, and drop one old leaf. True: it dropped one."""
    connection.execute(PARTITIONS)
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(OLD_PARTITION).fetchone()
    leaf = None if row is None else row[0]
    if leaf is None:
        return False
    events.emit(events.LeafDropped(leaf))
    return True
