"""Have the leaves for finished tasks ready before the day begins, and drop those that nobody keeps any more.

A drop is done in a moment whatever the leaf holds, but until it is committed no task can finish. So it comes last, one
leaf a call, and it waits for nobody who reads the leaf: it is simply tried again in the next round. That is no failure;
the transaction goes on as if nothing had been due.
"""

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.postgres import statement

PARTITIONS = statement.load(__file__, "partitions.sql")
OLD_PARTITION = statement.load(__file__, "old_partition.sql")


def partitions(connection: psycopg.Connection[Any]) -> bool:
    """Make what is missing of today and the next seven days, and drop one old leaf. True: it dropped one."""
    connection.execute(PARTITIONS)
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(OLD_PARTITION).fetchone()
    leaf = None if row is None else row[0]
    if leaf is None:
        return False
    events.emit(events.LeafDropped(leaf))
    return True
