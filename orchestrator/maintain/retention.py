"""Delete rows that have been kept long enough, a batch at a time. Finished tasks have their own duties
(`delete_finished` and `partitions`).

Each kind is its own duty, in its own transaction: a lock on one table does not stop the deletes from the others.
"""

from typing import Any, Literal, get_args

import psycopg
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.postgres import statement

RETENTION = statement.load(__file__, "retention.sql")

# A task carries up to 256 KiB of payload, whose pieces are deleted one by one: 1000 large ones take 0.3 s.
BATCH_SIZE = 1000

Kind = Literal["dead_letters", "attempts", "audit", "keys", "workers", "statistics"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def retention(connection: psycopg.Connection[Any], kind: Kind, *, batch_size: int = BATCH_SIZE) -> bool:
    """Delete one batch of one kind. True: there may be more."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(RETENTION, {"kind": kind, "batch_size": batch_size}, prepare=False).fetchone()
    count = row[0] if row is not None else 0
    if count:
        events.emit(events.RowsExpired(kind, count))
    return bool(count >= batch_size)
