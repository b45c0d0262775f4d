"""Send requests on a connection, in two colours with one statement and one reading of errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from orchestrator.enqueue.request import Request, as_array
from orchestrator.errors import EnqueueRefused, PayloadRefused, SchemaError
from orchestrator.postgres import statement

ENQUEUE = statement.load(__file__, "enqueue.sql")

PAYLOAD = "OR002"
NO_SCHEMA = (errors.InvalidSchemaName, errors.UndefinedFunction, errors.UndefinedTable)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A task that is in the database once the transaction commits. `created` is false when its key was taken:
    then the id is that of the task which has it."""

    id: int
    created: bool


def send(connection: psycopg.Connection[Any], requests: Sequence[Request]) -> list[Enqueued]:
    """Enqueue on this connection, in the transaction it is in."""
    try:
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(ENQUEUE, {"tasks": as_array(requests)})
            return [Enqueued(*row) for row in cursor.fetchall()]
    except psycopg.Error as error:
        raise told(error, single=len(requests) == 1) from error


async def asend(connection: psycopg.AsyncConnection[Any], requests: Sequence[Request]) -> list[Enqueued]:
    """The same on the event loop."""
    try:
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(ENQUEUE, {"tasks": as_array(requests)})
            return [Enqueued(*row) for row in await cursor.fetchall()]
    except psycopg.Error as error:
        raise told(error, single=len(requests) == 1) from error


def told(error: psycopg.Error, *, single: bool) -> Exception:
    """Say the database's refusal in our words; errors that are none of ours stay what they are."""
    message = error.diag.message_primary or str(error)
    if single:
        message = message.removeprefix("tasks[0]: ")
    if isinstance(error, NO_SCHEMA):
        return SchemaError(
            "this database has no orchestrator schema, or an older one; run `orchestrator migrate`"
        )
    if error.sqlstate == PAYLOAD:
        where, _, reason = message.rpartition("the payload ")
        return PayloadRefused(f"{where}the payload", reason, sqlstate=error.sqlstate)
    if error.sqlstate is not None and (error.sqlstate.startswith("OR") or error.sqlstate[:2] in ("22", "23")):
        return EnqueueRefused(message, sqlstate=error.sqlstate, hint=error.diag.message_hint)
    return error
