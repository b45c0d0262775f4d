"""Stand for the lead: four steps in one transaction, each a statement with its own clock()."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from orchestrator.postgres import statement

LOCK_LEADER = statement.load(__file__, "lock_leader.sql")
REMOVE_LEADER = statement.load(__file__, "remove_leader.sql")
BECOME_LEADER = statement.load(__file__, "become_leader.sql")
TAKE_TERM = statement.load(__file__, "take_term.sql")


@dataclass(frozen=True, slots=True)
class Gone:
    """A leader whose beacon was gone for the whole grace. Void as soon as that leader beats again."""

    worker_id: UUID
    beat_at: datetime


def elect(
    connection: psycopg.Connection[Any], *, worker_id: UUID, term_seconds: float, gone: Gone | None = None
) -> int | None:
    """Return our new term, or None: another worker leads, or was faster."""
    given = {
        "id": worker_id,
        "term_seconds": term_seconds,
        "gone_id": gone and gone.worker_id,
        "gone_beat_at": gone and gone.beat_at,
    }
    try:
        with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(LOCK_LEADER)
            cursor.execute(REMOVE_LEADER, given)
            cursor.execute(BECOME_LEADER, given)
            if cursor.fetchone() is None:
                return None
            cursor.execute(TAKE_TERM, given)
            row = cursor.fetchone()
    except errors.UniqueViolation:
        return None
    return row[0] if row is not None else None
