"""Lay the lead down, so that the next one need not wait for the end of the term."""

from typing import Any

import psycopg

from orchestrator.lead.fence import Reign
from orchestrator.postgres import statement

OWN = statement.load(__file__, "own.sql")
RESIGN = statement.load(__file__, "resign.sql")


def resign(connection: psycopg.Connection[Any], reign: Reign) -> bool:
    """Resign, if this is still our reign; tell whether it was."""
    given = {"id": reign.worker_id, "term": reign.term}
    with connection.transaction():
        if connection.execute(OWN, given).fetchone() is None:
            return False
        connection.execute(RESIGN, given)
    return True
