"""The application of the tests that run workers as processes. A door is an advisory lock: while the test holds it,
the handlers that want it wait."""

import asyncio
import ctypes
import os
import threading
import time

import psycopg

from orchestrator import Backoff, Context, Orchestrator

app = Orchestrator()
second = Orchestrator()


@app.task(name="shop.add")
def add(first: int, second: int) -> int:
    """Return the sum."""
    return first + second


@app.task(name="shop.knock")
async def knock(door: int, context: Context, next_door: int | None = None) -> int:
    """Wait behind a door (from the second attempt on, the next one), and return the attempt that passed."""
    if context.attempt > 1 and next_door is not None:
        door = next_door
    async with await psycopg.AsyncConnection.connect(app.config.database_url) as connection:
        await connection.execute("SELECT pg_advisory_lock_shared(%s)", [door])
    return context.attempt


@app.task(name="shop.work")
async def work(context: Context) -> int:
    """Return the pid of the process that ran it."""
    return os.getpid()


@app.task(name="shop.doze", timeout=0.2, max_attempts=1)
def doze() -> None:
    """Ignore the timeout, for longer than the tests wait."""
    threading.Event().wait(600)


@app.task(name="shop.fail", max_attempts=1)
def fail(secret: str) -> None:
    """Fail with a message that does not contain the payload."""
    raise ValueError("no")


@app.task(name="shop.busy", max_attempts=1)
async def busy(seconds: float) -> None:
    """Block the loop."""
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point


@app.task(name="shop.nap")
async def nap() -> None:
    """Take a few milliseconds."""
    await asyncio.sleep(0.005)


@app.task(name="shop.block")
async def block(door: int, after: float) -> None:
    """Block the loop behind a door, after other tasks have had time to start."""
    await asyncio.sleep(after)
    with psycopg.connect(app.config.database_url) as connection:
        connection.execute("SELECT pg_advisory_lock_shared(%s)", [door])


@app.task(name="shop.hold")
async def hold() -> None:
    """Hold the interpreter's lock, like C code: no other thread runs."""
    ctypes.PyDLL(None).sleep(600)


@app.task(name="shop.book", max_attempts=1000, backoff=Backoff(base_seconds=0.0, jitter=0.0))
async def book(context: Context) -> None:
    """Write an entry, and complete the task with it."""
    async with context.transaction() as connection:
        await connection.execute(
            "INSERT INTO ledger (task_id, attempt) VALUES (%s, %s)", [context.id, context.attempt]
        )


@app.task(name="shop.book_in_thread", max_attempts=1000, backoff=Backoff(base_seconds=0.0, jitter=0.0))
def book_in_thread(context: Context) -> None:
    """The same in a thread."""
    with context.transaction() as connection:
        connection.execute(
            "INSERT INTO ledger (task_id, attempt) VALUES (%s, %s)", [context.id, context.attempt]
        )
