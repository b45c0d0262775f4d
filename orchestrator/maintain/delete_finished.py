"""Delete finished tasks of queues that keep them for a shorter time than others do.

A leaf that no queue keeps is dropped as a whole (`partitions`). A leaf that must stay is walked, some pages a call, to
find the tasks of queues with a shorter retention. A leaf has no index but its key: an index by queue or time would make
every finish slower. A leaf is walked once its whole day is due for a queue. So a task goes at most a day after its
`keep_finished`, as with the leaves that are dropped, and each leaf is read once for each period and not repeatedly.

A `Walk` remembers the position; the caller keeps it and passes it in again. The walk goes on from a page only after a
round that found nothing there to delete: the deletes of a round may be rolled back, so it looks once more. A new leader
begins anew, and reads the leaves that stay once in vain. The walk leaves out locked tasks, and walks their leaf again
in a later pass, after the leaves behind it.
"""

from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.postgres import statement

LEAVES = statement.load(__file__, "delete_finished.sql", "leaves")
FINISHED = statement.load(__file__, "delete_finished.sql", "delete")

# 8 MB a call, read in some 10 ms where nothing is due; a million small tasks are 40 calls.
PAGES = 1024
BATCH_SIZE = 1000


@dataclass(slots=True)
class Walk:
    """The position of a pass through the leaves, and the leaves that need no other pass."""

    leaf: str = ""
    due: str = ""
    page: int | None = None
    skipped: bool = False
    done: dict[str, str] = field(default_factory=dict)


def finished(
    connection: psycopg.Connection[Any], walk: Walk, *, pages: int = PAGES, batch_size: int = BATCH_SIZE
) -> bool:
    """Delete one batch, or go on by `pages` pages. True: this pass is not at its end."""
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
    """Go to the next leaf that needs a walk. False: none is left, and the pass is at its end."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        leaves: dict[str, str] = dict(cursor.execute(LEAVES, prepare=False).fetchall())
    walk.done = {leaf: due for leaf, due in walk.done.items() if leaves.get(leaf) == due}
    behind = [leaf for leaf in sorted(leaves.keys() - walk.done.keys()) if leaf > walk.leaf]
    walk.leaf = behind[0] if behind else ""
    walk.due = leaves.get(walk.leaf, "")
    walk.page = 0 if behind else None
    walk.skipped = False
    return bool(behind)
