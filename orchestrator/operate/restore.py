"""Report what a copied database holds, and let its tasks run, after a dump was restored or a database cloned."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from orchestrator.errors import OperationRefused, SchemaError
from orchestrator.postgres import statement
from orchestrator.schema import compatibility

COPY = statement.load(__file__, "restore.sql", "copy")
RESUME = statement.load(__file__, "restore.sql", "resume")


@dataclass(frozen=True, slots=True)
class Copy:
    """The contents of a database whose tasks are at home elsewhere."""

    origins: str
    claimed: int
    running: int
    workers: int
    leader: str | None
    pending: int
    scheduled: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """The effect of resuming."""

    claimed: int
    running: int
    workers: int


def copied(connection: psycopg.Connection[Any]) -> Copy | None:
    """Read the contents of a copy; None: the tasks are at home here, and there is nothing to resume."""
    with translated(), connection.cursor(row_factory=tuple_row) as cursor:
        if (came_from := compatibility.origins(connection)) is None:
            return None
        row = cursor.execute(COPY).fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: a SELECT without FROM has one row
    return Copy(came_from, *row)


def resume_after_restore(connection: psycopg.Connection[Any], *, reason: str | None) -> Resumed:
    """Void the leases, end the leader's term, and let workers start. At home it changes nothing."""
    with translated(), connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(RESUME, {"reason": reason}).fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: the function returns one row
    return Resumed(*row)


@contextmanager
def translated() -> Iterator[None]:
    """Raise database errors as errors of our own, with advice."""
    try:
        yield
    except (errors.UndefinedTable, errors.UndefinedFunction, errors.InvalidSchemaName) as error:
        raise SchemaError(
            "this database has no orchestrator schema, or an older one; run `orchestrator migrate`"
        ) from error
    except errors.InsufficientPrivilege as error:
        raise OperationRefused(
            error.diag.message_primary,
            sqlstate=error.sqlstate,
            hint="To resume after a restore a role needs orchestrator_operator, or must own the tables.",
        ) from error
