"""The application whose tasks run through every fault. Each handler first records on a direct connection, without the
proxy, that it has begun. That record stays, however the attempt ends."""

import asyncio
import os

import psycopg

from orchestrator import Backoff, Context, Orchestrator

DIRECT = "CRASHPOINTS_DIRECT_URL"
# Long enough that the worker marks the task running.
LASTS_SECONDS = 0.08
SOON = Backoff(base_seconds=0.05, jitter=0.0)
BEGAN = "INSERT INTO points.executions (task_id, attempt, lease, pid) VALUES (%s, %s, %s, %s)"
ENTRY = "INSERT INTO points.ledger (task_id, attempt, lease) VALUES (%s, %s, %s)"

app = Orchestrator()


def begin(context: Context) -> None:
    """Record that this attempt has begun."""
    with psycopg.connect(os.environ[DIRECT], autocommit=True) as connection:
        connection.execute(BEGAN, [context.id, context.attempt, context.lease, os.getpid()])


@app.task(name="point.plain", max_attempts=20, backoff=SOON)
async def plain(context: Context) -> str:
    """Run for a short time."""
    begin(context)
    await asyncio.sleep(LASTS_SECONDS)
    return "done"


@app.task(name="point.retried", max_attempts=20, backoff=SOON)
async def retried(context: Context) -> None:
    """Fail at first."""
    begin(context)
    if context.attempt == 1:
        raise ValueError("at first it fails")


@app.task(name="point.own", max_attempts=20, backoff=SOON)
async def own(context: Context) -> None:
    """Write into the ledger in the transaction that completes the task."""
    begin(context)
    async with context.transaction() as connection:
        await connection.execute(ENTRY, [context.id, context.attempt, context.lease])


@app.task(name="point.own_in_thread", max_attempts=20, backoff=SOON)
def own_in_thread(context: Context) -> None:
    """The same in a thread."""
    begin(context)
    with context.transaction() as connection:
        connection.execute(ENTRY, [context.id, context.attempt, context.lease])


@app.task(name="point.progressing", max_attempts=20, backoff=SOON)
async def progressing(context: Context) -> None:
    """Report progress."""
    begin(context)
    for step in range(2):
        context.progress({"step": step})
        await asyncio.sleep(LASTS_SECONDS)


@app.task(name="point.own_leaking", max_attempts=20, backoff=SOON)
async def own_leaking(context: Context) -> None:
    """Do what a handler should not do: commit its entry before the completion, in a transaction of its own."""
    begin(context)
    with psycopg.connect(os.environ[DIRECT], autocommit=True) as connection:
        connection.execute(ENTRY, [context.id, context.attempt, context.lease])
    await asyncio.sleep(LASTS_SECONDS)
