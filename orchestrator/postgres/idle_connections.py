"""Borrow an idle connection of a pool that still works.

That the server has ended one is detected without a round trip: the server's last message, or the end of the stream, is
unread in the socket. Without this check the first enqueue after a restart of the server would be in doubt. The pool's
own `check` would wait after each such connection, twice as long each time: it gave up after 30 s if there were six.
"""

import select
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool


@contextmanager
def lent(
    pool: ConnectionPool[psycopg.Connection[Any]], within_seconds: float | None = None
) -> Iterator[psycopg.Connection[Any]]:
    """Borrow a connection for a block. Raises PoolTimeout if none is free in time."""
    seconds = pool.timeout if within_seconds is None else within_seconds
    deadline = time.monotonic() + seconds
    # Ends: each round takes an idle connection out of the pool; in the end it makes a new one, or raises PoolTimeout.
    while is_broken(connection := pool.getconn(deadline - time.monotonic())):
        connection.close()
        pool.putconn(connection)
    try:
        with connection:
            yield connection
    finally:
        pool.putconn(connection)


@asynccontextmanager
async def alent(
    pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]], within_seconds: float | None = None
) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """The same on the event loop."""
    seconds = pool.timeout if within_seconds is None else within_seconds
    deadline = time.monotonic() + seconds
    while is_broken(connection := await pool.getconn(deadline - time.monotonic())):
        await connection.close()
        await pool.putconn(connection)
    try:
        async with connection:
            yield connection
    finally:
        await pool.putconn(connection)


def is_broken(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Tell whether an idle connection is closed, here or by the server."""
    return connection.closed or unread(connection.fileno())


def unread(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
