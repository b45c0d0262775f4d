"""Stop the database's clock for a test, and move it.

All our statements read the time from one function, `orchestrator.clock()`. This module replaces the function for all
sessions of the database, and restores it. The clock is not a setting, since any role could change a setting. Only the
schema's owner can replace the function, and only in a database whose name marks it as a test's: in another database a
stopped clock would stop everything.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

import psycopg
from psycopg import errors

from orchestrator.app import Orchestrator
from orchestrator.errors import OrchestratorError
from orchestrator.postgres import connect, statement
from orchestrator.testing.application import info_of

STAND = statement.load(__file__, "clock.sql", "stop")
SET = statement.load(__file__, "clock.sql", "set")
NOW = statement.load(__file__, "clock.sql", "now")
END = statement.load(__file__, "clock.sql", "drop_table")

MARK = "test"


class ClockRefused(OrchestratorError):
    """The clock of this database may not be replaced, or not by this role."""


class Clock:
    """A stopped clock, for every session of a database."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    @property
    def now(self) -> datetime:
        """The time that every statement sees."""
        return moment_of(self._connection.execute(NOW).fetchone())

    def set(self, moment: datetime) -> None:
        """Set the clock to a moment, in the past or in the future."""
        if moment.utcoffset() is None:
            raise ValueError("the moment has no time zone; give it one, for example datetime.now(UTC)")
        self._connection.execute(SET, {"moment": moment})

    def advance(self, **by: float) -> None:
        """Move the clock by `days`, `hours`, `minutes` or `seconds`, the arguments of `timedelta`."""
        self.set(self.now + timedelta(**by))


@contextmanager
def frozen_clock(
    where: Orchestrator | str, *, at: datetime | None = None, any_name: bool = False
) -> Iterator[Clock]:
    """Stop the clock of an application's database, or of the database of a URL, within the block, at `at` or now.

    The database's name must contain "test". any_name=True confirms that nothing real runs there.
    """
    with connect.open_sync(info_of(where)) as connection:
        name = connection.info.dbname
        if MARK not in name.lower() and not any_name:
            raise ClockRefused(
                f"the name of database {name!r} does not hold {MARK!r}, and a clock that stands stops everything in "
                "it; if it is a test's all the same, say any_name=True"
            )
        clock = stopped(connection)
        try:
            if at is not None:
                clock.set(at)
            yield clock
        finally:
            go_on(connection)


def stopped(connection: psycopg.Connection[Any]) -> Clock:
    try:
        connection.execute(STAND)
    except (errors.InsufficientPrivilege, errors.InvalidSchemaName) as error:
        raise ClockRefused(
            f"role {connection.info.user!r} may not replace orchestrator.clock() in database "
            f"{connection.info.dbname!r}: {error.diag.message_primary}; the owner of the schema may, or a superuser"
        ) from None
    return Clock(connection)


def go_on(connection: psycopg.Connection[Any]) -> None:
    """Restore the schema's own clock."""
    with connection.transaction():
        connection.execute(
            resources.files("orchestrator.schema").joinpath("functions", "clock.sql").read_bytes()
        )
        connection.execute(END)


def moment_of(row: tuple[Any, ...] | None) -> datetime:
    moment: datetime = row[0] if row is not None else datetime.now(UTC)
    return moment.astimezone(UTC)
