"""A Session or a Connection of SQLAlchemy, whatever driver is under it, for threads and for coroutines.

Of a session it uses only the connection. So it flushes, expires and rolls back nothing in the session: begin_nested()
of a session flushes pending objects, and expires its objects when it fails.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from orchestrator.enqueue.target_psycopg import Rows, Start, at_once

T = TypeVar("T")
R = TypeVar("R")

# The caller's connection may fetch in pieces, through a cursor on the server; our answer is small and comes at once.
AT_ONCE = {"stream_results": False, "yield_per": None}

# Our own statements: SQLAlchemy has no transaction for an autocommit connection, and its begin_nested() fails on a
# connection that fetches in pieces.
TRANSACTION = ("BEGIN", "COMMIT", ("ROLLBACK",))
RELEASE = "RELEASE SAVEPOINT orchestrator"
SAVEPOINT = ("SAVEPOINT orchestrator", RELEASE, ("ROLLBACK TO SAVEPOINT orchestrator", RELEASE))


@dataclass(frozen=True, slots=True)
class Sqlalchemy:
    """A Connection, or a Session's, held by a thread."""

    held: Any
    text: Any  # sqlalchemy.text

    def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        answer = connection_of(self.held).execute(
            self.text(colons(query)), parameters, execution_options=AT_ONCE
        )
        return [tuple(row) for row in answer]

    def commits_at_once(self) -> bool:
        return autocommits(connection_of(self.held))

    @contextmanager
    def together(self, _opener: bytes, _parameters: dict[str, Any]) -> Iterator[None]:
        """Make the statements in this block one unit: all of them or none."""
        connection = connection_of(self.held)
        begin, end, undo = TRANSACTION if autocommits(connection) else SAVEPOINT
        say(connection, begin)
        try:
            yield
        except BaseException:
            # On a broken connection this fails, and is not needed.
            with suppress(Exception):
                for command in undo:
                    say(connection, command)
            raise
        say(connection, end)

    @contextmanager
    def ahead(self) -> Iterator[Start]:
        """Its connection belongs to this thread, so each statement waits for its answer."""
        yield lambda query, parameters: at_once(self.rows(query, parameters))


@dataclass(frozen=True, slots=True)
class AsyncSqlalchemy:
    """The same, held by a coroutine: SQLAlchemy has its own way to run a function for threads on the loop."""

    held: Any
    text: Any

    async def run(self, act: Callable[[Sqlalchemy, T], R], given: T) -> R:
        """Run a function that is written for threads."""
        done: R = await self.held.run_sync(lambda held: act(Sqlalchemy(held, self.text), given))
        return done


def connection_of(held: Any) -> Any:
    """Return the connection of a session. This begins its transaction, as any statement does."""
    return held.connection() if hasattr(held, "get_bind") else held


def autocommits(connection: Any) -> bool:
    """Tell whether the engine or this connection has isolation_level="AUTOCOMMIT"."""
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


def say(connection: Any, command: str) -> None:
    connection.exec_driver_sql(command, execution_options=AT_ONCE)


@cache
def colons(query: bytes) -> str:
    """Write psycopg's placeholders the way SQLAlchemy's text() wants them."""
    return re.sub(r"%\((\w+)\)s", r":\1", query.decode())
