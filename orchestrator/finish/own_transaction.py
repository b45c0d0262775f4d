"""Complete one task inside its handler's own transaction: the handler's writes and the task's end commit together.

It uses the same DELETE + INSERT as a batch, fenced by the same lease; the handler's transaction commits it. The steps
are written once, as generators; a coroutine or a thread takes them:

    complete_within   the last statements before the COMMIT. None: the lease is void; the handler's transaction must be
                      rolled back
    was_committed     after the COMMIT's answer was lost, on a fresh connection: was the transaction committed?

Lock order: the task's row comes last, after everything that the handler has locked. A deadlock needs an operator's
transaction that has the row locked and wants what the handler has locked. PostgreSQL then fails one of the two, and
undoes what the handler did.
"""

from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from orchestrator.finish.lease_ends import LeaseEnds, lease_ends
from orchestrator.finish.record import COMPLETE, COMPLETE_ALL, RECORDED, named
from orchestrator.postgres import statement
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Outcome, Recorded

WITHIN = statement.load(__file__, "own_transaction.sql")
HELD = statement.load(__file__, "still_leased.sql")

T = TypeVar("T")
# A statement and its parameters. The step's result is the rows of its answer.
Step = tuple[bytes, dict[str, Any] | None]
Steps = Generator[Step, list[tuple[Any, ...]], T]


def complete_within(outcome: Outcome, result: str | None) -> Steps[LeaseEnds | None]:
    """Complete the task in the open transaction, if its lease still holds."""
    yield WITHIN, None
    given = {**named([outcome]), "results": [result]}
    # If the first finds no row, the task is not plain, or its lease is void.
    for query in (COMPLETE, COMPLETE_ALL):
        count, _, *keys = (yield query, given)[0]
        if count == 1:
            return lease_ends(*keys)
    return None


def was_committed(task: Claimed) -> Steps[bool]:
    """Tell whether the task is completed under its lease. Needs autocommit: each statement has a new snapshot."""
    if (yield HELD, {"task_id": task.id, "lease": task.lease}):
        return False
    rows = yield RECORDED, named([Outcome(task, Recorded())])
    return bool(rows)


def take(connection: psycopg.Connection[Any], steps: Steps[T]) -> T:
    """Take the steps in this thread."""
    rows: list[tuple[Any, ...]] | None = None
    try:
        while True:
            query, given = steps.send(rows) if rows is not None else next(steps)
            with connection.cursor(row_factory=tuple_row) as cursor:
                cursor.execute(query, given)
                rows = cursor.fetchall() if given else []
    except StopIteration as end:
        value: T = end.value
        return value


async def take_async(connection: psycopg.AsyncConnection[Any], steps: Steps[T]) -> T:
    """Take the steps on the event loop."""
    rows: list[tuple[Any, ...]] | None = None
    try:
        while True:
            query, given = steps.send(rows) if rows is not None else next(steps)
            async with connection.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(query, given)
                rows = await cursor.fetchall() if given else []
    except StopIteration as end:
        value: T = end.value
        return value
