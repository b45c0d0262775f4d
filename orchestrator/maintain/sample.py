"""Count what the whole cluster holds, once for all: the leader counts, emits one event, and writes
orchestrator.samples, which `orchestrator status` reads.

It reads every live task, so its price grows with the backlog. `took_seconds` is that price; the caller leaves a
multiple of it between two samples.
"""

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.postgres import statement

SCAN = statement.load(__file__, "sample_scan.sql")
SAMPLE = statement.load(__file__, "sample.sql")


def sample(connection: psycopg.Connection[Any]) -> bool:
    """Emit one `GaugesSampled`. Always False: there is never more to do at once."""
    connection.execute(SCAN)
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(SAMPLE, prepare=False).fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: a SELECT without FROM has one row
    tasks, ready, dead, workers, notifications, transactions, seconds, ahead, took = row
    events.emit(
        events.GaugesSampled(
            tasks=tuple((queue, status, count) for queue, status, count in tasks),
            oldest_ready_seconds=tuple((queue, float(age)) for queue, age in ready),
            dead_letters=tuple((queue, count) for queue, count in dead),
            workers=tuple((state, count) for state, count in workers),
            notification_queue_usage=notifications,
            oldest_snapshot_transactions=transactions,
            oldest_snapshot_seconds=seconds,
            leaves_ahead=ahead,
            took_seconds=took,
        )
    )
    return False
