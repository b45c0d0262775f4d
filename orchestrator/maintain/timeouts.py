"""End attempts that run beyond their timeout because their worker does not end them.

Workers enforce timeouts themselves, and need a while to write that; so this duty leaves them a margin. If an attempt
still runs then, its worker beats and does not act: its loop is blocked, its outbox is stuck, or its clock is wrong.
The attempt counts as failed, as if the worker had reported it. A later outcome of the worker is stale.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.maintain.skip_bad_rows import BAD_ROW, skipping_bad_rows
from orchestrator.maintain.tallies import emit_written
from orchestrator.postgres import statement

OVERDUE = statement.load(__file__, "overdue.sql")
TIMEOUTS = statement.load(__file__, "timeouts.sql")

BATCH_SIZE = 1000
MARGIN_SECONDS = 15.0


def any_overdue(connection: psycopg.Connection[Any]) -> bool:
    """Tell whether any attempt is overdue."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(OVERDUE, {"margin_seconds": MARGIN_SECONDS, "most": 1}, prepare=False).fetchone()
    return row is not None


def timeouts(
    connection: psycopg.Connection[Any],
    *,
    margin_seconds: float = MARGIN_SECONDS,
    batch_size: int = BATCH_SIZE,
) -> bool:
    """Do one bounded round. True: there may be more."""
    try:
        with connection.transaction():
            ended = end(connection, None, margin_seconds, batch_size)
    except BAD_ROW:
        given = {"margin_seconds": margin_seconds, "most": batch_size}
        with connection.cursor(row_factory=tuple_row) as cursor:
            ids = [task_id for (task_id,) in cursor.execute(OVERDUE, given, prepare=False).fetchall()]
        one = partial(end, connection, margin_seconds=margin_seconds, batch_size=batch_size)
        ended = sum(skipping_bad_rows(connection, "timeouts", ids, one))
    return ended >= batch_size


def end(
    connection: psycopg.Connection[Any], ids: Sequence[int] | None, margin_seconds: float, batch_size: int
) -> int:
    """End the overdue attempts of all tasks, or of these; return how many."""
    given = {"margin_seconds": margin_seconds, "batch_size": batch_size, "only_ids": ids}
    with connection.cursor(row_factory=tuple_row) as cursor:
        # It runs every few seconds: so plan it each time, and never use a plan made for empty tables.
        row = cursor.execute(TIMEOUTS, given, prepare=False).fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: a SELECT without FROM has one row
    retried, dead_lettered, _rings, ended, leader = row
    emit_written(leader, ended)
    if retried or dead_lettered:
        events.emit(events.TimeoutsEnforced(retried, dead_lettered))
    return int(retried + dead_lettered)
