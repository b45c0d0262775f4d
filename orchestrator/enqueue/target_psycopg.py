"""A psycopg connection, whatever its row factory, its class of cursors, its adapters.

Our statement is prepared as any other would be, by the connection's own prepare_threshold: who goes through PgBouncer
has set that to None. Never to prepare would cost 50 µs of the 210 that an enqueue takes.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Psycopg:
    """A connection held by a thread."""

    connection: psycopg.Connection[Any]

    def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        # Not connection.cursor(): the caller may have chosen a class with other placeholders.
        with psycopg.Cursor(self.connection, row_factory=tuple_row) as cursor:
            return cursor.execute(query, parameters).fetchall()

    def commits_at_once(self) -> bool:
        return stands_alone(self.connection)

    @contextmanager
    def together(self, opener: bytes, parameters: dict[str, Any]) -> Iterator[None]:
        """Hold what follows together: all of it or none."""
        if not self.connection.autocommit:
            # Begin the caller's transaction, if it has not begun: what transaction() begins, it also commits.
            self.rows(opener, parameters)
        with self.connection.transaction():
            yield


@dataclass(frozen=True, slots=True)
class AsyncPsycopg:
    """A connection held by a coroutine."""

    connection: psycopg.AsyncConnection[Any]

    async def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        async with psycopg.AsyncCursor(self.connection, row_factory=tuple_row) as cursor:
            await cursor.execute(query, parameters)
            return await cursor.fetchall()

    def commits_at_once(self) -> bool:
        return stands_alone(self.connection)

    @asynccontextmanager
    async def together(self, opener: bytes, parameters: dict[str, Any]) -> AsyncIterator[None]:
        """The same on the event loop."""
        if not self.connection.autocommit:
            await self.rows(opener, parameters)
        async with self.connection.transaction():
            yield


def stands_alone(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Tell whether the next statement will be a transaction of its own."""
    return connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE
