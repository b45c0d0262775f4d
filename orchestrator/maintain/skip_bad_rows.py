"""Do a duty's work on all rows but the bad ones, after a round for all has failed because of one row.

A row that no constraint stopped (written by an older version, or past every guard) must not keep the leader from the
other rows. So the duty tries the rows together, then by halves, down to the one that fails. It reports that row, and
leaves it alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg

from orchestrator import events
from orchestrator.postgres import transient_errors

T = TypeVar("T")

# The errors that a value in a row can cause: out of range, of another type, against a constraint.
BAD_ROW = (psycopg.DataError, psycopg.IntegrityError)


def skipping_bad_rows(
    connection: psycopg.Connection[Any], duty: str, ids: Sequence[int], work: Callable[[Sequence[int]], T]
) -> list[T]:
    """Return the results of the work on these tasks. Ends: each half is smaller, and one task is not tried again."""
    try:
        with connection.transaction():
            return [work(ids)]
    except BAD_ROW as error:
        if len(ids) <= 1:
            for task_id in ids:
                description = (f"task {task_id}", type(error).__name__, transient_errors.reason(error))
                events.emit(events.DutyRowSkipped(duty, *description))
            return []
    middle = len(ids) // 2
    return [
        *skipping_bad_rows(connection, duty, ids[:middle], work),
        *skipping_bad_rows(connection, duty, ids[middle:], work),
    ]
