"""Start a worker, and wait for a server that is away, as a worker that runs would: but not for ever.

    nothing answers, or it starts up or shuts down    try again, with one line in the log each 10 s
    it has been away for the limit                    raise what was wrong at last
    it answers, and refuses us                        raise at once: a wrong password, no such database, no schema

libpq gives no SQLSTATE for a refused connection, and its text may be in any language. PQping tells the two apart: it
asks without a login. A server may come up between a try and the ping, so a refusal counts when the ping before that
try has been answered.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg

from orchestrator import events
from orchestrator.errors import DatabaseUnavailable
from orchestrator.postgres import connect, transient
from orchestrator.postgres.reconnect import LOOK_SECONDS, NotNow

SAY_SECONDS = 10.0


async def started(
    start: Callable[[], None], info: str, *, limit_seconds: float, stopping: asyncio.Event
) -> bool:
    """Call `start` in a thread until it succeeds; false if the worker is told to stop meanwhile. `info` is the
    connection string of what it connects to."""
    began = time.monotonic()
    say_at = began
    answered = False
    # Ends: it succeeds, is refused, the limit is over, or the worker is told to stop.
    while not stopping.is_set():
        try:
            await asyncio.to_thread(start)
        except NotNow:
            pass
        except (DatabaseUnavailable, psycopg.Error) as error:
            waited = time.monotonic() - began
            if answered or not limit_seconds or not may_wait(error):
                raise
            if waited >= limit_seconds:
                raise DatabaseUnavailable(
                    f"{transient.reason(error)}; the worker has waited {limit_seconds:g} s for it (start_wait_seconds)"
                ) from None
            answered = await asyncio.to_thread(connect.answers, info)
            if not answered and time.monotonic() >= say_at:
                say_at = time.monotonic() + SAY_SECONDS
                events.emit(events.ServerAwaited(transient.reason(error), round(waited, 1), limit_seconds))
        else:
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), LOOK_SECONDS)
    return False


def may_wait(error: Exception) -> bool:
    """Tell whether a server that is away may be the cause."""
    return transient.is_transient(error) and not transient.connection_survives(error)
