"""Count what the whole cluster holds, once for all: the leader counts, emits one event, and writes
orchestrator.samples, which `orchestrator status` reads.

It reads every live task, so its price grows with the backlog. `took_seconds` is that price; the caller leaves a
multiple of it between two samples.
"""

from typing import Any

import msgspec
import psycopg
from psycopg.rows import dict_row

from orchestrator import events
from orchestrator.postgres import statement

SCAN = statement.load(__file__, "sample_scan.sql")
SAMPLE = statement.load(__file__, "sample.sql")


def sample(connection: psycopg.Connection[Any]) -> bool:
    """Emit one `GaugesSampled`. Always False: there is never more to do at once."""
    connection.execute(SCAN)
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(SAMPLE, prepare=False).fetchone()
    events.emit(msgspec.convert(row, events.GaugesSampled))
    return False
