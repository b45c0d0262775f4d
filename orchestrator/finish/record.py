"""Write a batch of outcomes, and learn which were accepted."""

from collections.abc import Iterable, Sequence
from typing import Any, assert_never
from uuid import UUID

import msgspec
import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from orchestrator.postgres import statement
from orchestrator.task.outcome import (
    Buried,
    Cancelled,
    Completed,
    End,
    Failed,
    Fault,
    Outcome,
    PutBack,
    Recorded,
    Released,
    Snoozed,
)

COMPLETE = statement.load(__file__, "complete.sql")
SETTLE = statement.load(__file__, "settle.sql")
UNLOCKED = statement.load(__file__, "unlocked.sql")
RECORDED = statement.load(__file__, "recorded.sql")
PARTITION = statement.load(__file__, "partition.sql")

Connection = psycopg.AsyncConnection[Any]
# ending, delay, charged, error, record: one row of settle.sql
Row = tuple[str, float | None, bool, str | None, str | None]


async def record(connection: Connection, outcomes: Sequence[Outcome], *, worker_id: UUID) -> set[int]:
    """Write each outcome whose lease still holds; return the ids of those. All or none, if this raises."""
    try:
        return await write(connection, outcomes, worker_id)
    except errors.CheckViolation as error:
        if error.diag.constraint_name is not None:
            raise
    # No leaf for today: the maker of leaves is late, or the clock was moved.
    await connection.execute(PARTITION)
    return await write(connection, outcomes, worker_id)


async def record_unlocked(
    connection: Connection, outcomes: Sequence[Outcome], *, worker_id: UUID
) -> tuple[set[int], list[Outcome]]:
    """Write those outcomes whose rows nobody has locked; return the ids accepted and the outcomes left out."""
    async with connection.transaction():
        free = await answered(connection, UNLOCKED, outcomes)
        accepted = await record(connection, [o for o in outcomes if o.task.id in free], worker_id=worker_id)
    return accepted, [o for o in outcomes if o.task.id not in free]


async def written_before(connection: Connection, outcomes: Sequence[Outcome]) -> set[int]:
    """Return the ids of those outcomes that an earlier try has written."""
    return await answered(connection, RECORDED, outcomes)


async def write(connection: Connection, outcomes: Sequence[Outcome], worker_id: UUID) -> set[int]:
    ordered = sorted(outcomes, key=lambda outcome: outcome.task.id)
    successes = [(o, o.end.result) for o in ordered if isinstance(o.end, Completed)]
    others = [(o, row(o.end)) for o in ordered if not isinstance(o.end, Completed)]
    accepted: set[int] = set()
    async with connection.transaction():
        if successes:
            results = {"results": [result for _, result in successes]}
            accepted |= await answered(connection, COMPLETE, (o for o, _ in successes), results)
        if others:
            names = ("ends", "delays", "charged", "errors", "records")
            columns = dict(zip(names, map(list, zip(*(r for _, r in others), strict=True)), strict=True))
            accepted |= await answered(
                connection, SETTLE, (o for o, _ in others), {**columns, "worker_id": worker_id}
            )
    return accepted


async def answered(
    connection: Connection, query: bytes, outcomes: Iterable[Outcome], more: dict[str, Any] | None = None
) -> set[int]:
    keys = [(o.task.id, o.task.lease) for o in outcomes]
    given = {"ids": [task_id for task_id, _ in keys], "leases": [lease for _, lease in keys], **(more or {})}
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(query, given)
        return {task_id for (task_id,) in await cursor.fetchall()}


def row(end: End) -> Row:
    """Say an end in the words of settle.sql."""
    match end:
        case Failed(fault, kind, after_seconds):
            return "waiting", after_seconds, True, as_json(fault), kind
        case Buried(fault, kind):
            return "dead_letter", None, True, as_json(fault), kind
        case Cancelled(reason):
            return "cancelled", None, True, as_json(Fault("Cancelled", reason)), None
        case Snoozed(after_seconds):
            return "waiting", after_seconds, False, None, None
        case PutBack(fault, after_seconds, times):
            return "waiting", after_seconds, False, as_json(fault, put_back=times), None
        case Released():
            return "waiting", None, False, None, None
        case Completed():
            raise AssertionError("a success is written by complete.sql")
        case Recorded():
            raise AssertionError("who has completed its task itself has nothing to write")
        case _:
            assert_never(end)


def as_json(fault: Fault, **more: int) -> str:
    body = {"class": fault.class_name, "message": fault.message, "traceback": fault.traceback, **more}
    return msgspec.json.encode(body).decode()
