"""Start a worker. If the server is away, wait for it as a running worker does, but not for ever.

    no server answers, or it starts up or shuts down    try again, with one line in the log every 10 s
    it has been away for the limit                      raise the last error
    it answers and refuses the connection               raise at once: a wrong password, no such database, no schema

libpq gives no SQLSTATE for a refused connection, and its text can be in any language. PQping distinguishes a server
that is away from one that refuses: it needs no login. A server may come up between a try and its ping, so a refusal
counts only if the ping before that try was answered.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg

from orchestrator import events
from orchestrator.errors import DatabaseUnavailable
from orchestrator.postgres import connect, transient_errors
from orchestrator.postgres.reconnect import LOOK_SECONDS, NotNow

SAY_SECONDS = 10.0


async def started(
    start: Callable[[], None], info: str, *, limit_seconds: float, stopping: asyncio.Event
) -> bool:
    """Call `start` in a thread until it succeeds. Return False if the worker has to stop meanwhile. `info` is the
    connection string that `start` uses."""
    began = time.monotonic()
    say_at = began
    answered = False
    # Ends: `start` succeeds or is refused, the limit is over, or the worker has to stop.
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
                    f"{transient_errors.reason(error)}; "
                    f"the worker has waited {limit_seconds:g} s for it (start_wait_seconds)"
                ) from None
            answered = await asyncio.to_thread(connect.answers, info)
            if not answered and time.monotonic() >= say_at:
                say_at = time.monotonic() + SAY_SECONDS
                events.emit(
                    events.ServerAwaited(transient_errors.reason(error), round(waited, 1), limit_seconds)
                )
        else:
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), LOOK_SECONDS)
    return False


def may_wait(error: Exception) -> bool:
    """Tell whether the cause may be that the server is away."""
    return transient_errors.is_transient(error) and not transient_errors.connection_survives(error)
