"""Write a batch of outcomes, and learn which were accepted, and what the ends of their leases have written."""

import time
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import attrgetter, or_
from typing import Any, NamedTuple, assert_never
from uuid import UUID

import msgspec
import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from orchestrator.finish.lease_ends import NO_ENDS, LeaseEnds, lease_ends
from orchestrator.postgres import statement
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import (
    Cancelled,
    Completed,
    DeadLettered,
    Failed,
    Fault,
    Lost,
    Outcome,
    PutBack,
    Recorded,
    Released,
    Snoozed,
)

COMPLETE = statement.load(__file__, "complete.sql")
COMPLETE_ALL = statement.load(__file__, "complete_all.sql")
SETTLE = statement.load(__file__, "settle.sql")
UNLOCKED = statement.load(__file__, "lock_unlocked.sql")
RECORDED = statement.load(__file__, "recorded.sql")
LOST = statement.load(__file__, "record_void.sql")
PARTITION = statement.load(__file__, "partition.sql")

# An attrgetter takes half the time of an attribute in a loop.
by_id, lease_of, begun_of = attrgetter("task.id"), attrgetter("task.lease"), attrgetter("begun_at")

Connection = psycopg.AsyncConnection[Any]
# ending, delay, charged, error, record: one row of settle.sql
Row = tuple[str, float | None, bool, str | None, str | None]


class Written(NamedTuple):
    """The ids of the outcomes that were refused, and the keys of what the others have written beside their tasks."""

    refused: set[int]
    ends: LeaseEnds

    def __or__(self, other: "Written") -> "Written":
        return Written(self.refused | other.refused, self.ends | other.ends)


async def record(
    connection: Connection, outcomes: Sequence[Outcome], *, worker_id: UUID, has_leaf: bool = True
) -> Written:
    """Write each outcome whose lease still holds, and refuse the others. After an error, some may be written."""
    if not has_leaf:
        await connection.execute(PARTITION)
    others = [outcome for outcome in outcomes if type(outcome.end) is not Completed]
    if others and (lost := [outcome for outcome in others if type(outcome.end) is Lost]):
        await record_lost(connection, lost, worker_id=worker_id)
        outcomes = [outcome for outcome in outcomes if type(outcome.end) is not Lost]
        others = [outcome for outcome in others if type(outcome.end) is not Lost]
    successes = [outcome for outcome in outcomes if type(outcome.end) is Completed] if others else outcomes
    try:
        if not others and connection.info.transaction_status is TransactionStatus.IDLE:
            # One statement is its own transaction; an explicit one costs two more round trips.
            return await complete(connection, successes) if successes else Written(set(), NO_ENDS)
        async with connection.transaction():
            written = await complete(connection, successes) if successes else Written(set(), NO_ENDS)
            return written | await settle(connection, others, worker_id) if others else written
    except errors.CheckViolation as error:
        if error.diag.constraint_name is not None or not has_leaf:
            raise
    # There is no leaf for today: the leader's duty is late, or the clock was moved.
    return await record(connection, outcomes, worker_id=worker_id, has_leaf=False)


async def record_unlocked(
    connection: Connection, outcomes: Sequence[Outcome], *, worker_id: UUID
) -> tuple[Written, list[Outcome]]:
    """Write the outcomes whose rows are not locked; return what was written, and the outcomes left out."""
    async with connection.transaction():
        free = await answered(connection, UNLOCKED, named(outcomes))
        written = await record(connection, [o for o in outcomes if o.task.id in free], worker_id=worker_id)
    return written, [o for o in outcomes if o.task.id not in free]


async def written_before(connection: Connection, outcomes: Sequence[Outcome]) -> set[int]:
    """Return the ids of the outcomes that an earlier try has written."""
    return await answered(connection, RECORDED, named(outcomes))


async def record_lost(connection: Connection, outcomes: Sequence[Outcome], *, worker_id: UUID) -> None:
    """Record which of these ran: their leases are void, and nothing else is written about them."""
    if begun := [outcome for outcome in outcomes if outcome.begun_at is not None]:
        tasks = [outcome.task for outcome in begun]
        given = {
            "attempts": [task.attempt for task in tasks],
            "queues": [task.queue for task in tasks],
            "types": [task.type for task in tasks],
            "reasons": [
                o.end.reason if isinstance(o.end, Lost) else "its outcome came too late" for o in begun
            ],
        }
        await connection.execute(LOST, {**named(begun), "worker_id": worker_id, **given})


async def complete(connection: Connection, outcomes: Sequence[Outcome]) -> Written:
    outcomes = sorted(outcomes, key=by_id)
    results: list[str | None] | None = [outcome.end.result for outcome in outcomes]  # type: ignore[union-attr] # successes
    if results is not None and not any(results):
        results = None
    given = {**named(outcomes), "results": results}
    left = len(outcomes)
    refused: set[int] | None = None
    async with connection.cursor(row_factory=tuple_row) as cursor:
        # What the first does not accept is not plain, or is stale.
        for query in (COMPLETE, COMPLETE_ALL):
            await cursor.execute(query, given)
            count, accepted, *keys = await cursor.fetchone() or (0, None)
            left -= count
            if not left:
                return Written(set(), lease_ends(*keys) if keys else NO_ENDS)
            refused = (ids_of(outcomes) if refused is None else refused).difference(accepted or ())
    return Written(refused or set(), lease_ends(*keys))


async def settle(connection: Connection, outcomes: Sequence[Outcome], worker_id: UUID) -> Written:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(SETTLE, settling(outcomes, worker_id))
        rows = await cursor.fetchall()
    keys = (lease_ends(holds, gates) for _, holds, gates in rows if holds or gates)
    return Written(ids_of(outcomes).difference(row[0] for row in rows), reduce(or_, keys, NO_ENDS))


def release_now(connection: psycopg.Connection[Any], tasks: Sequence[Claimed], *, worker_id: UUID) -> None:
    """Give back tasks that have not begun, from a thread, while the loop is blocked."""
    if tasks:
        connection.execute(SETTLE, settling([Outcome(task, Released()) for task in tasks], worker_id))


def settling(outcomes: Sequence[Outcome], worker_id: UUID) -> dict[str, Any]:
    outcomes = sorted(outcomes, key=by_id)
    rows = [row(outcome) for outcome in outcomes]
    names = ("ends", "delays", "charged", "errors", "records")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return {**named(outcomes), **columns, "worker_id": worker_id}


def ids_of(outcomes: Sequence[Outcome]) -> set[int]:
    return set(map(by_id, outcomes))


def named(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the ids and leases of these outcomes, and how many microseconds ago each handler started, pairwise."""
    now = time.monotonic()
    ages = (None if begun_at is None else int((now - begun_at) * 1e6) for begun_at in map(begun_of, outcomes))
    return {"ids": array(map(by_id, outcomes)), "leases": array(map(lease_of, outcomes)), "ages": array(ages)}


def array(values: Iterable[int | None]) -> str:
    """Write numbers as PostgreSQL reads an array: like JSON, with other brackets. The driver's own way costs many times
    as much."""
    return f"{{{msgspec.json.encode(list(values))[1:-1].decode()}}}"


async def answered(connection: Connection, query: bytes, given: dict[str, Any]) -> set[int]:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(query, given)
        return {task_id for (task_id,) in await cursor.fetchall()}


def row(outcome: Outcome) -> Row:
    """Return an end as a row for settle.sql. An attempt that has begun leaves a record, however it ended. A cancelled
    or a completed task is its own record."""
    begun = outcome.begun_at is not None
    match outcome.end:
        case Failed(fault, kind, after_seconds):
            return "waiting", after_seconds, True, as_json(fault), kind
        case DeadLettered(fault, kind):
            return "dead_letter", None, True, as_json(fault), kind
        case Cancelled(reason):
            return "cancelled", None, True, as_json(Fault("Cancelled", reason)), None
        case Snoozed(after_seconds):
            return "waiting", after_seconds, False, None, "snoozed" if begun else None
        case PutBack(fault, after_seconds, times):
            return "waiting", after_seconds, False, as_json(fault, put_back=times), None
        case Released():
            return "waiting", None, False, None, "released" if begun else None
        case Completed():
            raise AssertionError("complete.sql writes a success")
        case Recorded():
            raise AssertionError("a handler that completed its task itself leaves nothing to write")
        case Lost():
            raise AssertionError("record_void.sql writes an attempt that has lost its lease")
        case _:
            assert_never(outcome.end)


def as_json(fault: Fault, **more: int) -> str:
    body = {"class": fault.class_name, "message": fault.message, "traceback": fault.traceback, **more}
    return msgspec.json.encode(body).decode()
