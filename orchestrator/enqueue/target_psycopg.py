"""A psycopg connection, whatever its row factory, its class of cursors, its adapters.

The connection prepares our statement by its own prepare_threshold, as any other: a caller behind PgBouncer has set that
to None. Without preparing, an enqueue would take 210 µs instead of 160.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

Rows = list[tuple[Any, ...]]
# Sends a statement, and returns the way to wait for its answer.
Start = Callable[[bytes, dict[str, Any]], Callable[[], Rows]]
AsyncStart = Callable[[bytes, dict[str, Any]], Awaitable[Awaitable[Rows]]]


@dataclass(frozen=True, slots=True)
class Psycopg:
    """A connection held by a thread."""

    connection: psycopg.Connection[Any]

    def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        # Not connection.cursor(): the caller's cursor class may have other placeholders.
        with psycopg.Cursor(self.connection, row_factory=tuple_row) as cursor:
            return cursor.execute(query, parameters).fetchall()

    def commits_at_once(self) -> bool:
        return stands_alone(self.connection)

    @contextmanager
    def together(self, opener: bytes, parameters: dict[str, Any]) -> Iterator[None]:
        """Make the statements in this block one unit: all of them or none."""
        if not self.connection.autocommit:
            # Begin the caller's transaction first: transaction() would commit one that it begins itself.
            self.rows(opener, parameters)
        with self.connection.transaction():
            yield

    @contextmanager
    def ahead(self) -> Iterator[Start]:
        """Send statements without waiting for their answers, one at a time. Leaves none on its way."""
        with ThreadPoolExecutor(1, "orchestrator enqueue") as sender:

            def start(query: bytes, parameters: dict[str, Any]) -> Callable[[], Rows]:
                begun = threading.Event()

                def send() -> Rows:
                    begun.set()
                    return self.rows(query, parameters)

                try:
                    sent = sender.submit(send)
                except RuntimeError:  # no thread can be started any more
                    return at_once(self.rows(query, parameters))
                # Without this wait the thread would get its turn only when this one has written the next chunk.
                begun.wait()
                return sent.result

            yield start


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

    @asynccontextmanager
    async def ahead(self) -> AsyncIterator[AsyncStart]:
        """The same on the event loop."""
        sending: set[asyncio.Task[Rows]] = set()

        async def start(query: bytes, parameters: dict[str, Any]) -> Awaitable[Rows]:
            sent = asyncio.ensure_future(self.rows(query, parameters))
            sending.add(sent)
            await asyncio.sleep(0)  # let it be sent
            return sent

        try:
            yield start
        finally:
            for sent in sending:
                sent.cancel()
            await asyncio.gather(*sending, return_exceptions=True)


def at_once(rows: Rows) -> Callable[[], Rows]:
    """Return an answer that is there already."""
    return lambda: rows


def stands_alone(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Tell whether the next statement is its own transaction."""
    return connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE
