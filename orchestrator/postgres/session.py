"""One connection that reconnects: the policy for everything on the event loop.

`run` calls the work with the connection. After a transient failure it calls the work again, on a new connection if the
old one broke. The work must be safe to run twice: after a lost connection its progress is unknown.

Prepared statements are planned again from time to time: a worker may have idled on empty tables that are full now.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from orchestrator import events
from orchestrator.postgres import connect, statement, transient_errors
from orchestrator.postgres.reconnect import LOOK_SECONDS, NotNow, Reconnect

SETTINGS = statement.load(__file__, "session.sql")
GENERIC_PLANS = statement.load(__file__, "generic_plans.sql")
REPLAN = statement.load(__file__, "replan.sql")

# Longer than any statement of ours takes.
ANSWER_SECONDS = 15.0
# How old the plans of a working session may become: planning a handful of statements takes a millisecond. A session
# with hardly any work keeps its plans longer, because it would pay for new ones just when a task arrives.
REPLAN_EVERY_SECONDS = 1.0
REPLAN_AFTER_WORK_SECONDS = 0.25

T = TypeVar("T")
Connection = psycopg.AsyncConnection[Any]


class Session:
    """A connection of the worker. It is opened on first use, and again after each break."""

    def __init__(self, info: str, *, purpose: str, reach: Reconnect | None = None) -> None:
        self._info = info
        self._purpose = purpose
        self._reach = reach or Reconnect()
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._replan_at = 0.0
        self._worked_seconds = 0.0
        # The time of the last statement that does no work.
        self.round_trip_seconds = 0.0
        self._failures = 0

    async def run(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        give_up_on: Callable[[Exception], bool],
        answer_seconds: float | None = ANSWER_SECONDS,
    ) -> T:
        """Run the work until it succeeds, fails for good, or fails in a way for which `give_up_on` is true. Work
        without an answer for `answer_seconds` loses its connection, and runs again. Calls are serialised."""
        async with self._turn:
            return await self._run(work, give_up_on, answer_seconds)

    def hang_up(self) -> None:
        """End the connection while work waits on it. The work then runs again, or is given up, as after any break."""
        if self._connection is not None and not self._connection.closed:
            connect.hang_up(self._connection)

    async def close(self) -> None:
        """Close the connection; the next run opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                await connection.close()

    async def _run(
        self,
        work: Callable[[Connection], Awaitable[T]],
        give_up_on: Callable[[Exception], bool],
        answer_seconds: float | None,
    ) -> T:
        for wait_seconds in transient_errors.waits():
            try:
                answer = await self._answer(work, await self._ready(give_up_on), answer_seconds)
            except NotNow:
                # Another connection of this worker is being tried, and emits the event if it fails.
                raise
            except Exception as error:
                survives, gives_up = transient_errors.connection_survives(error), give_up_on(error)
                if not survives:
                    await self.close()
                    self._reach.broke()
                if not transient_errors.is_transient(error) or (gives_up and survives):
                    raise
                self._failures += 1
                events.emit(events.ConnectionLost(self._purpose, transient_errors.reason(error)))
                if gives_up:
                    raise
                await asyncio.sleep(wait_seconds)
            except BaseException:
                # Cancelled in the middle of a statement: the next statement would read its answer.
                await self.close()
                raise
            else:
                if self._failures:
                    events.emit(events.ConnectionRestored(self._purpose, self._failures + 1))
                    self._failures = 0
                return answer
        raise AssertionError("waits() never ends")

    async def _answer(
        self, work: Callable[[Connection], Awaitable[T]], connection: Connection, seconds: float | None
    ) -> T:
        # asyncio.timeout cannot be used: on a cancellation psycopg waits for the server once more.
        if seconds is None:
            return await work(connection)
        deadline = asyncio.get_running_loop().call_later(seconds, connect.hang_up, connection)
        begun_at = time.monotonic()
        try:
            return await work(connection)
        finally:
            deadline.cancel()
            self._worked_seconds += time.monotonic() - begun_at

    async def _ready(self, give_up_on: Callable[[Exception], bool]) -> Connection:
        if self._connection is None or self._connection.closed:
            while not self._reach.may_try():
                if give_up_on(NotNow()):
                    raise NotNow
                await asyncio.sleep(LOOK_SECONDS)
            self._connection = await self._open()
        elif time.monotonic() >= self._replan_at and self._worked_seconds >= REPLAN_AFTER_WORK_SECONDS:
            begun_at = time.monotonic()
            await self._connection.execute(REPLAN)
            self.round_trip_seconds = time.monotonic() - begun_at
        else:
            return self._connection
        self._replan_at = time.monotonic() + REPLAN_EVERY_SECONDS
        self._worked_seconds = 0.0
        return self._connection

    async def _open(self) -> Connection:
        try:
            connection = await connect.open_async(self._info)
            try:
                begun_at = time.monotonic()
                settle(connection, await (await connection.execute(SETTINGS)).fetchone())
                self.round_trip_seconds = time.monotonic() - begun_at
                if connection.prepare_threshold is not None:
                    await connection.execute(GENERIC_PLANS)
            except BaseException:
                await connection.close()
                raise
        except BaseException:
            self._reach.failed()
            raise
        self._reach.succeeded()
        return connection


def settle(connection: Connection | psycopg.Connection[Any], settings: tuple[Any, ...] | None) -> None:
    """Prepare no statements behind a pooler: the next transaction may get another server session, where the name is
    unknown, or is another client's statement."""
    if settings is None or settings[-1] != connection.info.backend_pid:
        connection.prepare_threshold = None
