"""Delete finished tasks of queues that keep them for a shorter time than others do.

What nobody keeps goes with its leaf (`partitions`). In a leaf that must stay, the tasks of the impatient queues are
found by walking it, some pages a call: a leaf has no index but its key, since one by queue or time would cost every
finish. A leaf is walked once its whole day is due for a queue, so that what is kept for `keep_finished` goes at most a
day later, as with the leaves that are dropped, and each leaf is read once for each period and not over and over.

Where the walk stands is remembered in a `Walk`, which the caller keeps and hands in again. It goes on from a page only
after a round that found nothing there to delete: what a round deleted may be rolled back, and is looked at once more.
A new leader begins anew, and reads the leaves that stay once for nothing. A task that is locked by somebody is left
out, and its leaf is walked again in a later pass, after those behind it.
"""

from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.postgres import statement

LEAVES = statement.load(__file__, "leaves.sql")
FINISHED = statement.load(__file__, "delete_finished.sql")

# 8 MB a call, read in some 10 ms where nothing is due; a million small tasks are 40 calls.
PAGES = 1024
BATCH_SIZE = 1000


@dataclass(slots=True)
class Walk:
    """Where a pass through the leaves stands, and which leaves need no other."""

    leaf: str = ""
    due: str = ""
    page: int | None = None
    skipped: bool = False
    done: dict[str, str] = field(default_factory=dict)


def finished(
    connection: psycopg.Connection[Any], walk: Walk, *, pages: int = PAGES, batch_size: int = BATCH_SIZE
) -> bool:
    """Delete one batch, or go on by so many pages. True: this pass is not at its end."""
    if walk.page is None and not _turn_to_next(connection, walk):
        return False
    given = {"leaf": walk.leaf, "first_page": walk.page, "pages": pages, "batch_size": batch_size}
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(FINISHED, given, prepare=False).fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: the function returns one row
    due, deleted, next_page = row
    if deleted:
        events.emit(events.RowsExpired("finished", deleted))
        return True
    walk.skipped |= due > 0
    walk.page = next_page
    if next_page is None and not walk.skipped:
        walk.done[walk.leaf] = walk.due
    return True


def _turn_to_next(connection: psycopg.Connection[Any], walk: Walk) -> bool:
    """Turn to the first leaf behind the last one that needs a walk; where none is left, the pass is at its end."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        leaves: dict[str, str] = dict(cursor.execute(LEAVES, prepare=False).fetchall())
    walk.done = {leaf: due for leaf, due in walk.done.items() if leaves.get(leaf) == due}
    behind = [leaf for leaf in sorted(leaves.keys() - walk.done.keys()) if leaf > walk.leaf]
    walk.leaf = behind[0] if behind else ""
    walk.due = leaves.get(walk.leaf, "")
    walk.page = 0 if behind else None
    walk.skipped = False
    return bool(behind)
