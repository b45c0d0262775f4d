"""A psycopg connection, whatever its row factory, its class of cursors, its adapters.

The connection prepares our statement by its own prepare_threshold, as any other: a caller behind PgBouncer has set that
to None. Without preparing, an enqueue would take 210 µs instead of 160.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
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
    is_ours: bool = False  # of the application's own pool

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
        """Send statements without waiting for their answers, one at a time. Leaves none on its way.

        Only on a connection of the pool: a caller's own may be in use by the caller's items, as they are read."""
        with ExitStack() as stack:
            sender = (
                stack.enter_context(ThreadPoolExecutor(1, "orchestrator enqueue")) if self.is_ours else None
            )
            if sender is None or not starts(sender):
                yield lambda query, parameters: at_once(self.rows(query, parameters))
                return
            sent: Future[Rows] | None = None

            def start(query: bytes, parameters: dict[str, Any]) -> Callable[[], Rows]:
                nonlocal sent
                begun = threading.Event()

                def send() -> Rows:
                    begun.set()
                    return self.rows(query, parameters)

                try:
                    sent = sender.submit(send)
                except RuntimeError:  # the interpreter ends, while this thread goes on
                    return at_once(self.rows(query, parameters))
                # Without this wait the thread would run only after this one has written the next chunk.
                begun.wait()
                return sent.result

            try:
                yield start
            except BaseException:
                if sent is not None and not sent.done():
                    with suppress(psycopg.Error):
                        self.connection.cancel_safe()
                raise


@dataclass(frozen=True, slots=True)
class AsyncPsycopg:
    """A connection held by a coroutine."""

    connection: psycopg.AsyncConnection[Any]
    is_ours: bool = False

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
        sent: asyncio.Task[Rows] | None = None

        async def start(query: bytes, parameters: dict[str, Any]) -> Awaitable[Rows]:
            nonlocal sent
            sent = asyncio.ensure_future(self.rows(query, parameters))
            if self.is_ours:
                await asyncio.sleep(0)  # let it be sent
            else:
                await asyncio.wait({sent})
            return sent

        try:
            yield start
        finally:
            if sent is not None:
                sent.cancel()
                await asyncio.gather(sent, return_exceptions=True)


def starts(sender: ThreadPoolExecutor) -> bool:
    """Start the executor's thread. False if none can be started any more: a later `submit` would raise, and yet run."""
    try:
        sender.submit(bool)
    except RuntimeError:
        return False
    return True


def at_once(rows: Rows) -> Callable[[], Rows]:
    """Return an answer that is there already."""
    return lambda: rows


def stands_alone(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Tell whether the next statement is its own transaction."""
    return connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE
