"""The application of the tests whose handlers end their process, fork it, or close its descriptors."""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

import psycopg

from orchestrator import Backoff, Context, Orchestrator

AT_ONCE = Backoff(base_seconds=0.0, jitter=0.0)

app = Orchestrator()


@app.task(name="breaking.exit", backoff=AT_ONCE)
async def end(code: int) -> None:
    """End the process without a message."""
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


@app.task(name="breaking.fork", max_attempts=1)
async def fork(how: str, path: str) -> int | None:
    """Fork the worker."""
    if (pid := os.fork()) == 0:
        if how == "await":
            await asyncio.sleep(0)
        in_copy(how)
        return None
    return ended(pid, how, path)


@app.task(name="breaking.fork_in_thread", max_attempts=1)
def fork_in_thread(how: str, path: str) -> int | None:
    """The same in a thread."""
    if (pid := os.fork()) == 0:
        in_copy(how)
        return None
    return ended(pid, how, path)


@app.task(name="breaking.fork_in_process", max_attempts=1, executor="process")
def fork_in_process(how: str, path: str) -> int | None:
    """The same in a child process."""
    if (pid := os.fork()) == 0:
        in_copy(how)
        return None
    return ended(pid, how, path)


def in_copy(how: str) -> None:
    """Run the forked copy's part."""
    match how:
        case "raise":
            raise ValueError("in the copy")
        case "exit":
            sys.exit(3)
        case "stay":
            threading.Event().wait(600)


def ended(pid: int, how: str, path: str) -> int:
    """Store the pid of a copy that stays. Return the exit code of a copy that ends."""
    if how == "stay":
        Path(path).write_text(str(pid))
        return -1
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@app.task(name="breaking.jot", max_attempts=9)
async def jot() -> None:
    """Write an entry. Each entry is the effect of one execution."""
    async with await psycopg.AsyncConnection.connect(app.config.database_url, autocommit=True) as connection:
        await connection.execute("INSERT INTO journal VALUES (1)")


@app.task(name="breaking.close", max_attempts=1)
async def close(wait: bool) -> None:
    """Close the descriptors of the worker."""
    os.closerange(3, 4096)
    if wait:
        await asyncio.sleep(600)


@app.task(name="breaking.close_in_thread", max_attempts=1)
def close_in_thread(wait: bool) -> None:
    """The same in a thread."""
    os.closerange(3, 4096)
    if wait:
        threading.Event().wait(600)


@app.task(name="breaking.close_all_but_loop", max_attempts=1)
async def close_all_but_loop() -> None:
    """Close all descriptors except the loop's, so that the loop goes on."""
    kept = asyncio.get_running_loop()._selector.fileno()  # type: ignore[attr-defined] # of asyncio's own loop
    os.closerange(3, kept)
    os.closerange(kept + 1, 4096)
    await asyncio.sleep(600)


@app.task(name="breaking.close_wakeup")
async def close_wakeup() -> None:
    """Disconnect everything that wakes the loop, also signals."""
    void = os.open(os.devnull, os.O_RDWR)
    os.dup2(void, asyncio.get_running_loop()._csock.fileno())  # type: ignore[attr-defined] # of asyncio's own loop
    os.close(void)


@app.task(name="breaking.block", max_attempts=1)
async def block() -> None:
    """Block the loop for ever."""
    while True:
        time.sleep(600)  # noqa: ASYNC251 - that is the point
