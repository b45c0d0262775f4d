"""Say why a task is not running: one answer in words, and the command that helps.

The answer is the database's own, `SELECT orchestrator.explain(42)`, so that psql, the command line and a page on the
web say the same.
"""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator.operate.state import translated
from orchestrator.postgres import statement

EXPLAIN = statement.load(__file__, "explain.sql")

ABSENT = frozenset({"deleted", "never_existed", "forgotten", "absent"})


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one task is not running. `command` is what helps: SQL, or a command line; None: nothing need be done, or
    nothing can."""

    task_id: int
    reason: str
    says: str
    command: str | None

    @property
    def is_absent(self) -> bool:
        """Whether there is no such task."""
        return self.reason in ABSENT


def explain(connection: psycopg.Connection[Any], task_id: int) -> Explanation:
    """Explain one task; an id that is nobody's has its explanation too."""
    with translated(task_id), connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(EXPLAIN, {"id": task_id}).fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: the function returns one row
    return Explanation(task_id, *row)
