"""The failures, grouped by fault: a thousand dead letters become three lines, and an operator can act on each line.

The name of a group is a hash of type, error class and normalised message, the same from day to day. `group` searches it
among the newest failures, which the list shows too.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import class_row

from orchestrator.errors import OperationRefused
from orchestrator.operate.filters import Fault, Search
from orchestrator.postgres import statement
from orchestrator.task.status import Status

GROUPS = statement.load(__file__, "failures.sql")

NEWEST = 10_000


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters, and tasks that wait for a retry, with the same fault."""

    group_id: str
    type: str
    error_class: str
    message: str
    dead_letters: int
    retrying: int
    first_seen: datetime
    last_seen: datetime
    sample_id: int

    @property
    def search(self) -> Search:
        """A search for its dead letters, including those older than the list."""
        return Search(statuses=(Status.DEAD_LETTER,), fault=Fault(self.type, self.error_class, self.message))


def groups(connection: psycopg.Connection[Any], *, newest: int = NEWEST) -> tuple[Group, ...]:
    """Return the faults among the newest failures, the most frequent first."""
    with connection.cursor(row_factory=class_row(Group)) as cursor:
        return tuple(cursor.execute(GROUPS, {"newest": newest}).fetchall())


def group(connection: psycopg.Connection[Any], group_id: str, *, newest: int = NEWEST) -> Group:
    """Return the group with this name, or the only group whose name begins with it."""
    found = groups(connection, newest=newest)
    alike = [each for each in found if each.group_id.startswith(group_id.lower())] if group_id else []
    if not alike:
        raise OperationRefused(
            f"there is no group {group_id!r} among the newest {newest:,} failures; `orchestrator failures` lists them"
        )
    if len(alike) > 1:
        names = ", ".join(each.group_id for each in alike)
        raise OperationRefused(f"{group_id!r} begins the names of several groups: {names}; write more of it")
    return alike[0]
