"""Lend connections to handlers, both coroutines and threads. The number is bounded; each is opened on first use.

This is not psycopg_pool, which serves the producers (pools.py). A cancellation is how a handler learns of its timeout
or of an operator's statement. In psycopg_pool a cancelled waiter stays in the queue, and may miss the cancellation:
with 3.3.3, two connections and 6,000 cancellations, 5,335 waiters were left over and two cancellations were lost. It
also reports why it cannot connect only at its timeout. And it needs two pools, sync and async, where one bound is
wanted.

The handler's own statements run on these connections, so each keeps its user's search_path; our statements on them are
fully qualified. Before a connection is lent again, DISCARD ALL removes what its last user has set, locked or prepared.
The pool detects without a round trip that the server has ended an idle connection.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.errors import DatabaseUnavailable
from orchestrator.postgres import connect, statement, transient_errors
from orchestrator.postgres.idle_connections import is_broken
from orchestrator.postgres.reconnect import LOOK_SECONDS, NotNow, Reconnect

RESET_SESSION = statement.load(__file__, "reset_session.sql")

# A restart or a failover of the server takes seconds. A handler that waits so long does not fail its attempt.
PATIENCE_SECONDS = 5.0
# How often a thread that waits for a connection checks that its attempt still goes on.
THREAD_LOOKS_SECONDS = 0.2

Sync = psycopg.Connection[tuple[Any, ...]]
Async = psycopg.AsyncConnection[tuple[Any, ...]]
C = TypeVar("C", Sync, Async)


class TransactionPool:
    """At most `size` connections, lent and idle together."""

    def __init__(self, info: str, *, purpose: str, size: int, reach: Reconnect) -> None:
        self._info = info
        self._purpose = purpose
        self._reach = reach
        self._guard = threading.Lock()
        self._free = size
        self._waiting: deque[Future[None]] = deque()
        self._idle: list[Sync] = []
        self._idle_async: list[Async] = []
        self._lent: set[Sync | Async] = set()
        self._closed = False

    async def aborrow(self) -> Async:
        """Lend a connection to a coroutine, as soon as one is free. Raises DatabaseUnavailable."""
        place = self._place()
        try:
            await asyncio.wrap_future(place)
        except asyncio.CancelledError:
            if not place.cancel():
                self._leave_place()
            raise
        try:
            return self._is_lent(await self._aready())
        except BaseException:
            self._leave_place()
            raise

    def borrow(self, is_wanted: Callable[[], bool]) -> Sync | None:
        """Lend a connection to this thread; None if `is_wanted` becomes false first. Raises DatabaseUnavailable."""
        place = self._place()
        # Ends: a connection is given back, or the attempt ends.
        while not place.done():
            with suppress(NotYet):
                place.result(THREAD_LOOKS_SECONDS)
            if not is_wanted() and place.cancel():
                return None
        try:
            return self._is_lent(self._ready())
        except BaseException:
            self._leave_place()
            raise

    async def atake_back(self, connection: Async) -> None:
        """Take a connection back. If it is not idle, close it."""
        with self._guard:
            self._lent.discard(connection)
            keep = not self._closed and is_idle(connection)
            if keep:
                self._idle_async.append(connection)
        if not keep:
            await connection.close()
        self._leave_place()

    def take_back(self, connection: Sync) -> None:
        """The same from a thread."""
        with self._guard:
            self._lent.discard(connection)
            keep = not self._closed and is_idle(connection)
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()
        self._leave_place()

    async def close(self) -> None:
        """Close all connections. Those still lent are hung up, and the server rolls their transactions back."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
            idle_async, self._idle_async = self._idle_async, []
            lent = list(self._lent)
        for connection in idle:
            connection.close()
        for each in idle_async:
            await each.close()
        for one in lent:
            connect.hang_up(one)

    # A place is the right to one connection.

    def _place(self) -> Future[None]:
        place: Future[None] = Future()
        with self._guard:
            if self._free > 0:
                self._free -= 1
                place.set_result(None)
            else:
                self._waiting.append(place)
        return place

    def _leave_place(self) -> None:
        while True:
            with self._guard:
                if not self._waiting:
                    self._free += 1
                    return
                place = self._waiting.popleft()
            # The waiter may have been cancelled.
            if place.set_running_or_notify_cancel():
                place.set_result(None)
                return

    def _is_lent(self, connection: C) -> C:
        with self._guard:
            self._lent.add(connection)
        return connection

    # The holder of a place gets an idle connection, or a new one. Ends: a connection is ready, or the patience is over.

    async def _aready(self) -> Async:
        trying = Trying(self._reach)
        while True:
            idle: Async | None = self._pop(self._idle_async)
            if idle is not None:
                if await self._arenewed(idle):
                    return idle
            elif pause_seconds := trying.pause_seconds():
                await asyncio.sleep(pause_seconds)
            else:
                with trying:
                    return as_new(await connect.open_async(self._info, safe_path=False))

    def _ready(self) -> Sync:
        trying = Trying(self._reach)
        while True:
            idle: Sync | None = self._pop(self._idle)
            if idle is not None:
                if self._renewed(idle):
                    return idle
            elif pause_seconds := trying.pause_seconds():
                time.sleep(pause_seconds)
            else:
                with trying:
                    return as_new(connect.open_sync(self._info, safe_path=False))

    def _pop(self, idle: list[Any]) -> Any:
        """Return an idle connection that still works, or None. With None, one idle connection of the other kind (sync
        or async) is closed to make room."""
        while True:
            with self._guard:
                others: list[Any] = self._idle if idle is self._idle_async else self._idle_async
                connection = idle.pop() if idle else None
                displaced = others.pop() if connection is None and others else None
            if displaced is not None:
                displaced.pgconn.finish()
            if connection is None or not is_broken(connection):
                return connection
            connection.pgconn.finish()

    async def _arenewed(self, connection: Async) -> bool:
        try:
            await as_new(connection).execute(RESET_SESSION)
        except psycopg.Error as error:
            await connection.close()
            self._broke(error)
            return False
        except BaseException:
            await connection.close()
            raise
        return True

    def _renewed(self, connection: Sync) -> bool:
        try:
            as_new(connection).execute(RESET_SESSION)
        except psycopg.Error as error:
            connection.close()
            self._broke(error)
            return False
        return True

    def _broke(self, error: psycopg.Error) -> None:
        events.emit(events.ConnectionLost(self._purpose, transient_errors.reason(error)))


class Trying:
    """Repeated tries to connect until the patience is over, in turns with the worker's other connections."""

    def __init__(self, reach: Reconnect) -> None:
        self._reach = reach
        self._deadline = time.monotonic() + PATIENCE_SECONDS

    def pause_seconds(self) -> float:
        """Return how long to wait before the next look; 0: try now. Raises NotNow when the patience is over."""
        if self._reach.may_try():
            return 0.0
        if time.monotonic() > self._deadline:
            raise NotNow
        return LOOK_SECONDS

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._reach.succeeded()
            return False
        self._reach.failed()
        return isinstance(error, DatabaseUnavailable) and time.monotonic() < self._deadline


def as_new(connection: C) -> C:
    """Reset what the last user has set on the object. No statements are prepared on it: behind a pooler the next
    transaction may get another server session."""
    connection.row_factory = tuple_row
    connection.prepare_threshold = None
    return connection


def is_idle(connection: Sync | Async) -> bool:
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
