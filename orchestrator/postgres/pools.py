"""The connections for enqueues that bring none: one pool for all threads, and one for each event loop.

A pool is opened on first use, so importing an application does not connect. It prepares statements where that is
possible (may_prepare.py). A forked process begins without pools: the sockets belong to its parent, and so do the
threads that serve them. The connections of a loop that has ended are closed: a program that calls `asyncio.run` again
and again would otherwise use up the server's connections.

All pools are closed when the interpreter begins to exit (`close_at_exit`). A call after that, or in a process that can
start no thread, opens a new connection for itself.
"""

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

from orchestrator.config import Config
from orchestrator.errors import DatabaseUnavailable
from orchestrator.postgres import connect
from orchestrator.postgres.idle_connections import alent, lent
from orchestrator.postgres.may_prepare import prepare_if_possible, prepare_if_possible_async

# Held for a moment only. A fork waits for it: no thread of the child would release a lock that another thread held.
FORKED = threading.RLock()
os.register_at_fork(before=FORKED.acquire, after_in_parent=FORKED.release, after_in_child=FORKED.release)
# How long the interpreter's exit waits for a pool's thread. Every thread ends at once, except one that is connecting.
EXIT_SECONDS = 1.0
EXITING = threading.Event()


class Pools:
    """The pools of one application."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._sync: ConnectionPool[psycopg.Connection[Any]] | None = None
        self._async: dict[asyncio.AbstractEventLoop, AsyncConnectionPool[psycopg.AsyncConnection[Any]]] = {}
        # The parent's pools. They are never closed here, since that would end the parent's sessions, and never freed.
        self._inherited: list[object] = []
        ALL.add(self)

    @contextmanager
    def connection(self, within_seconds: float | None = None) -> Iterator[psycopg.Connection[Any]]:
        """Borrow a connection for this thread. Raises TimeoutError if none is free within `within_seconds`."""
        with ExitStack() as stack:
            try:
                pool = self.sync()
                connection = stack.enter_context(lent(pool, within_seconds))
            except PoolClosed:
                connection = stack.enter_context(closing(connect.open_sync(self._info())))
                connection.prepare_threshold = None
            except PoolTimeout as error:
                if within_seconds is not None and not failed_to_connect(pool):
                    raise TimeoutError(impatient(within_seconds)) from error
                # The pool does not report why it has none. A connection outside of it raises the reason.
                connect.open_sync(self._info()).close()
                if not gave_up(pool):
                    raise self._exhausted() from error
                connection = stack.enter_context(lent(pool))
            yield connection

    @asynccontextmanager
    async def aconnection(
        self, within_seconds: float | None = None
    ) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Borrow a connection for this coroutine."""
        async with AsyncExitStack() as stack:
            try:
                pool = await self.on_loop()
                connection = await stack.enter_async_context(alent(pool, within_seconds))
            except PoolClosed:
                connection = await connect.open_async(self._info())
                stack.push_async_callback(connection.close)
                connection.prepare_threshold = None
            except PoolTimeout as error:
                if within_seconds is not None and not failed_to_connect(pool):
                    raise TimeoutError(impatient(within_seconds)) from error
                await (await connect.open_async(self._info())).close()
                if not gave_up(pool):
                    raise self._exhausted() from error
                connection = await stack.enter_async_context(alent(pool))
            yield connection

    def sync(self) -> ConnectionPool[psycopg.Connection[Any]]:
        """Return the pool for threads. Raises PoolClosed if it cannot be opened."""
        self._begin_anew_if_forked()
        with self._guard:
            if self._sync is None:
                if EXITING.is_set():
                    raise PoolClosed("the interpreter exits")
                try:
                    self._sync = ConnectionPool(
                        self._info(),
                        open=True,
                        configure=prepare_if_possible,
                        **self._settings(),
                    )
                except RuntimeError as error:
                    # Python 3.12 starts no thread after the main one has ended; a machine starts none beyond its
                    # limits.
                    raise PoolClosed(str(error)) from error
            return self._sync

    async def on_loop(self) -> AsyncConnectionPool[psycopg.AsyncConnection[Any]]:
        """Return the pool of the running loop."""
        loop = asyncio.get_running_loop()
        self._begin_anew_if_forked()
        with self._guard:
            for ended in [other for other in self._async if other.is_closed()]:
                finish(self._async.pop(ended))
            pool = self._async.get(loop)
            if pool is None:
                pool = AsyncConnectionPool(
                    self._info(),
                    open=False,
                    configure=prepare_if_possible_async,
                    **self._settings(),
                )
                self._async[loop] = pool
        await pool.open()
        return pool

    def close(self) -> None:
        """Close the pool for threads."""
        with self._guard:
            pool, self._sync = self._sync, None
        if pool is not None:
            pool.close()

    async def aclose(self) -> None:
        """Close the pool of the running loop."""
        with self._guard:
            pool = self._async.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()

    def abandon(self) -> None:
        """Close the connections of all loops that have ended, without a loop."""
        with self._guard:
            for ended in [loop for loop in self._async if loop.is_closed()]:
                finish(self._async.pop(ended))

    def close_at_exit(self) -> None:
        """Close this process's pools: that for threads and those of loops that do not run."""
        if self._pid != os.getpid():
            return  # a fork that has used no pool: the sessions are its parent's
        self.abandon()
        with self._guard:
            pool, self._sync = self._sync, None
            left_open = [loop for loop in self._async if not loop.is_running()]
            on_loops = [(loop, self._async.pop(loop)) for loop in left_open]
        if pool is not None:
            pool.close(EXIT_SECONDS)
        for loop, on_loop in on_loops:
            loop.run_until_complete(on_loop.close(EXIT_SECONDS))

    def _begin_anew_if_forked(self) -> None:
        with FORKED:
            if self._pid != os.getpid():
                # The old guard may have been held at the moment of the fork, and would then be held for ever.
                self._guard = threading.Lock()
                for pool in (self._sync, *self._async.values()):
                    if pool is not None:
                        self._inherited.append(pool)
                        disconnect(pool)
                self._sync, self._async, self._pid = None, {}, os.getpid()

    def _exhausted(self) -> DatabaseUnavailable:
        config = self._config
        return DatabaseUnavailable(
            f"no connection to {connect.describe(self._info())} became free within {config.pool_timeout_seconds:g} s: "
            f"more than pool_size ({config.pool_size}) are in use at once; raise ORCHESTRATOR_POOL_SIZE"
        )

    def _info(self) -> str:
        return connect.conninfo(self._config.database_url, application_name="orchestrator producer")

    def _settings(self) -> dict[str, Any]:
        return {
            "min_size": 0,
            "max_size": self._config.pool_size,
            "timeout": self._config.pool_timeout_seconds,
            # The pool doubles the wait between its tries to connect up to this limit, and starts again with the next
            # caller. With its own default of 300 s, a database that was away for two minutes would stay out of reach
            # for two more.
            "reconnect_timeout": self._config.pool_timeout_seconds,
            "kwargs": {"autocommit": True},
            "name": "orchestrator",
        }


ALL: weakref.WeakSet[Pools] = weakref.WeakSet()


# Registered at import, so that an application's own exit functions run before it, and still have pools.
@atexit.register
def close_at_exit() -> None:
    """Close all pools of this process while their threads still run.

    A pool that is still open waits for its threads when it is freed. From Python 3.13 on such a thread never ends: each
    costs 5 s and a warning (psycopg's issue 954), and Python 3.14 raises. Functions of atexit run before that, and
    after all threads that an exit waits for.
    """
    log = logging.getLogger("psycopg.pool")

    def drop(record: logging.LogRecord) -> bool:
        # The warning for a thread that is about to connect: it ends with the process.
        return False

    EXITING.set()
    log.addFilter(drop)
    for pools in list(ALL):
        pools.close_at_exit()
    log.removeFilter(drop)


def failed_to_connect(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> bool:
    """Return whether a pool failed to connect. If it did, a wait is not for other users of the pool."""
    return pool.get_stats().get("connections_errors", 0) > 0


def impatient(seconds: float) -> str:
    return f"no connection to the database became free within {seconds:g} s"


def idle(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> list[Any]:
    """Return the idle connections of a pool. psycopg_pool has no public name for them."""
    return list(getattr(pool, "_pool", ()))


def finish(pool: AsyncConnectionPool[Any]) -> None:
    """Close the connections of a pool whose loop has ended, without that loop."""
    for connection in idle(pool):
        connection.pgconn.finish()


def disconnect(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> None:
    """Replace a forked process's copies of its parent's sockets by /dev/null. At its exit libpq writes to them, for
    example the message that would end the parent's session."""
    void = os.open(os.devnull, os.O_RDWR)
    for connection in idle(pool):
        os.dup2(void, connection.fileno())
    os.close(void)


def gave_up(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> bool:
    """Return whether a pool has stopped trying to connect. It stops after its last failed try, and its waiters get no
    error."""
    return pool.get_stats()["pool_size"] == 0
