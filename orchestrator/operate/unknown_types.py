"""The tasks that workers have put back, because they do not know the type: code is not deployed, or a name is wrong."""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator.postgres import statement

UNKNOWN_TYPES = statement.load(__file__, "unknown_types.sql")


@dataclass(frozen=True, slots=True)
class UnknownType:
    """Tasks of one type and queue that workers have put back; `first`: the id of one."""

    type: str
    queue: str
    count: int
    first: int


def unknown_types(connection: psycopg.Connection[Any]) -> list[UnknownType]:
    """Return a few, the most frequent first."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        # Empty parameters, not None: the statement writes a percent sign as %%.
        rows = cursor.execute(UNKNOWN_TYPES, {}).fetchall()
    return [UnknownType(kind, queue, count, first) for kind, queue, count, _, first in rows]
