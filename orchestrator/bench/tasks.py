"""The measured application: handlers that do nothing, or that return the time of their start."""

import asyncio
import time

from orchestrator.app import Orchestrator

app = Orchestrator()


@app.task(name="bench.nothing")
async def nothing() -> None:
    """Do nothing, on the event loop."""


@app.task(name="bench.in_thread")
def in_thread() -> None:
    """Do nothing, in a thread."""


@app.task(name="bench.large")
async def large(text: str) -> None:
    """Do nothing with a large payload."""


@app.task(name="bench.stamp")
async def stamp() -> int:
    """Return the time of the start, on the clock that all processes of this machine share."""
    return time.monotonic_ns()


@app.task(name="bench.sleep", queue="asleep")
async def sleep(seconds: float) -> None:
    """Occupy a slot."""
    await asyncio.sleep(seconds)
