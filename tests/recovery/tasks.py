"""The application whose workers are killed, frozen and cut off."""

import asyncio
import os
import signal
import time
from pathlib import Path

import psycopg

from orchestrator import Context, Orchestrator, Retry

app = Orchestrator()


@app.task(name="drill.hold", timeout=3600)
async def hold(context: Context, seconds: float = 3000, until: str = "") -> float:
    """In the first attempt, run for `seconds`, or until a file exists. Later attempts return the time at once."""
    if context.attempt == 1 and until:
        while not await asyncio.to_thread(Path(until).exists):  # noqa: ASYNC110 - frozen meanwhile: no event comes
            await asyncio.sleep(0.05)
    elif context.attempt == 1:
        await asyncio.sleep(seconds)
    return time.time()


@app.task(name="drill.nap")
async def nap(seconds: float) -> None:
    """Run for this time in each attempt."""
    await asyncio.sleep(seconds)


@app.task(name="drill.stamp")
async def stamp() -> list[float]:
    """Return the time, and the process."""
    return [time.time(), os.getpid()]


@app.task(name="drill.stumble")
async def stumble(context: Context, after: float) -> float:
    """Fail once; then return how late the retry is."""
    if context.attempt == 1:
        raise Retry(after=after)
    return time.time()


@app.task(name="drill.poison", max_attempts=10)
async def poison(struck: str) -> None:
    """Kill the process, when every started task has recorded its start."""
    async with await psycopg.AsyncConnection.connect(app.config.database_url, autocommit=True) as connection:
        await connection.execute("SELECT orchestrator.pause_queue('default')")
    await asyncio.sleep(0.1)
    write_down(struck, "!")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="drill.innocent", max_attempts=10)
async def innocent(context: Context, book: str, struck: str, seconds: float) -> None:
    """First record that this attempt began. Then run for this time, and until the poison has killed a process."""
    write_down(book, f"{context.id} {context.attempt}\n")
    await asyncio.sleep(seconds)
    await asyncio.to_thread(appeared, Path(struck))


def appeared(path: Path) -> None:
    while not path.exists():
        time.sleep(0.02)


@app.task(name="drill.book", max_attempts=1000)
async def book(context: Context, key: str) -> None:
    """Write an entry, and complete the task with it."""
    async with context.transaction() as connection:
        await connection.execute("INSERT INTO ledger (task_id, key) VALUES (%s, %s)", [context.id, key])


@app.task(name="drill.stubborn", timeout=3600)
def stubborn(door: str) -> str:
    """Return when a file exists, whatever happens to the task."""
    while not Path(door).exists():
        time.sleep(0.02)
    return "late"


def write_down(book: str, line: str) -> None:
    with Path(book).open("a") as file:
        file.write(line)
