"""Resign, so that the next leader need not wait for the end of the term."""

from typing import Any

import psycopg

from orchestrator.lead.fence import Leadership
from orchestrator.postgres import statement

LOCK_OWN_ROW = statement.load(__file__, "lock_own_row.sql")
RESIGN = statement.load(__file__, "resign.sql")


def resign(connection: psycopg.Connection[Any], leadership: Leadership) -> bool:
    """Resign if this worker still leads in this term. Return whether it did."""
    given = {"id": leadership.worker_id, "term": leadership.term}
    with connection.transaction():
        if connection.execute(LOCK_OWN_ROW, given).fetchone() is None:
            return False
        connection.execute(RESIGN, given)
    return True
