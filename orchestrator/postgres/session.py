"""One connection that comes back: the reconnect policy, for everything on the event loop.

`run` hands the connection to a piece of work, and hands it a new one for as long as the work fails in a way
that may pass. The work must bear being run twice: after a lost connection nobody knows how far it came.

What is prepared on it is planned anew at times: a worker may have idled on empty tables that are full now.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from orchestrator import events
from orchestrator.postgres import connect, statement, transient
from orchestrator.postgres.reconnect import LOOK_SECONDS, NotNow, Reconnect

SETTINGS = statement.load(__file__, "session.sql")
REPLAN = statement.load(__file__, "replan.sql")

# Longer than any statement of ours takes.
ANSWER_SECONDS = 15.0
# So long may a plan be out of date, of a session at work: to plan a handful of statements takes a millisecond. One that
# has hardly anything to do is left its plans for longer, since it would pay for new ones when it is in a hurry.
REPLAN_EVERY_SECONDS = 1.0
REPLAN_AFTER_WORK_SECONDS = 0.25

T = TypeVar("T")
Connection = psycopg.AsyncConnection[Any]


class Session:
    """A connection of the worker's own, opened when first needed and again whenever it breaks."""

    def __init__(self, info: str, *, purpose: str, reach: Reconnect | None = None) -> None:
        self._info = info
        self._purpose = purpose
        self._reach = reach or Reconnect()
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._replan_at = 0.0
        self._worked_seconds = 0.0
        # What a statement takes that does nothing: by the last time that one was sent.
        self.round_trip_seconds = 0.0
        self._failures = 0

    async def run(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        give_up_on: Callable[[Exception], bool],
        answer_seconds: float | None = ANSWER_SECONDS,
    ) -> T:
        """Run the work until it succeeds, fails for good, or fails in the way the caller wants to see itself. Work that
        gets no answer for so long loses its connection, and is done again. Who comes while another's is done waits."""
        async with self._turn:
            return await self._run(work, give_up_on, answer_seconds)

    def hang_up(self) -> None:
        """End the connection under whoever waits on it; the work is then done, or given up, as after any break."""
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
        for wait_seconds in transient.waits():
            try:
                answer = await self._answer(work, await self._ready(give_up_on), answer_seconds)
            except NotNow:
                # Another connection of this worker is being tried, and says so if it fails.
                raise
            except Exception as error:
                survives, gives_up = transient.connection_survives(error), give_up_on(error)
                if not survives:
                    await self.close()
                    self._reach.broke()
                if not transient.is_transient(error) or (gives_up and survives):
                    raise
                self._failures += 1
                events.emit(events.ConnectionLost(self._purpose, transient.reason(error)))
                if gives_up:
                    raise
                await asyncio.sleep(wait_seconds)
            except BaseException:
                # Cancelled in the middle of a statement: its answer would be read by the next one.
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
        # Not asyncio.timeout: psycopg meets a cancellation by waiting for the server once more.
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
            except BaseException:
                await connection.close()
                raise
        except BaseException:
            self._reach.failed()
            raise
        self._reach.succeeded()
        return connection


def settle(connection: Connection | psycopg.Connection[Any], settings: tuple[Any, ...] | None) -> None:
    """Prepare no statements behind a pooler: the next transaction may have another session of the server, where such
    a name is unknown, or a statement of somebody else's."""
    if settings is None or settings[-1] != connection.info.backend_pid:
        connection.prepare_threshold = None
