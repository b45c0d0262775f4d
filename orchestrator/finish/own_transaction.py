"""Complete one task inside its handler's own transaction, so that its writes and its end are one.

It is the same DELETE + INSERT as that of a batch, fenced by the same lease; whoever commits it is the handler's
transaction. What happens is said here once, as steps, and taken by a coroutine or by a thread:

    complete_within   the last thing before the COMMIT; false: the lease is void, and all must be rolled back
    was_committed     when the COMMIT's answer was lost: on a fresh connection, whether it got through

Lock order: the task's row comes last, after whatever the handler has locked. Who waits for both is a hand that has the
row locked and wants what the handler has: one of the two is refused by PostgreSQL, and what the handler did is undone.
"""

from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from orchestrator.finish.record import COMPLETE, COMPLETE_ALL, RECORDED, ages, named
from orchestrator.postgres import statement
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Outcome, Recorded

WITHIN = statement.load(__file__, "own_transaction.sql")
HELD = statement.load(__file__, "still_leased.sql")

T = TypeVar("T")
# A statement and what it is given, for the rows that it answers with.
Step = tuple[bytes, dict[str, Any] | None]
Steps = Generator[Step, list[tuple[Any, ...]], T]


def complete_within(outcome: Outcome, result: str | None) -> Steps[bool]:
    """Complete the task in the transaction that is open; tell whether its lease still held."""
    yield WITHIN, None
    given = {**named([outcome]), "ages": ages([outcome]), "results": [result]}
    # What the first leaves is not plain, or its lease is void.
    for query in (COMPLETE, COMPLETE_ALL):
        rows = yield query, given
        if rows[0][0] == 1:
            return True
    return False


def was_committed(task: Claimed) -> Steps[bool]:
    """Tell whether the task is completed under its lease; asked in autocommit, where each statement sees all."""
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
    """Take them on the loop."""
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
