"""The application of the tests whose handlers break the process they run in: they end it, fork it, close its descriptors."""

import os

import psycopg

from orchestrator import Backoff, Context, Orchestrator

AT_ONCE = Backoff(base_seconds=0.0, jitter=0.0)

app = Orchestrator()


@app.task(name="breaking.exit", backoff=AT_ONCE)
async def end(code: int) -> None:
    """End the process without a word."""
    os._exit(code)


@app.task(name="breaking.exit_once")
async def end_once(door: int, context: Context) -> int:
    """End the process with success in the first attempt, behind a door: an advisory lock that the test holds."""
    if context.attempt == 1:
        async with await psycopg.AsyncConnection.connect(app.config.database_url) as connection:
            await connection.execute("SELECT pg_advisory_lock_shared(%s)", [door])
            os._exit(0)
    return context.attempt


@app.task(name="breaking.exit_in_thread", backoff=AT_ONCE)
def end_in_thread(code: int) -> None:
    """The same in a thread."""
    os._exit(code)
