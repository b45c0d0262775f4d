"""The application of the demo: one task for each thing that happens to tasks. The docstrings are shown in its table."""

import time

from orchestrator.app import Orchestrator
from orchestrator.execute.context import Context
from orchestrator.task.backoff import Backoff

app = Orchestrator()

SOON = Backoff(base_seconds=0.5, factor=1.0)
"""The default waits seconds, which is right for a day and long for a demo."""


@app.task(name="demo.fast")
async def fast(number: int) -> int:
    """returns at once"""
    return number * number


@app.task(name="demo.slow", queue="slow")
def slow(seconds: float) -> float:
    """works 0.3 s in a thread"""
    time.sleep(seconds)
    return seconds


@app.task(name="demo.flaky", backoff=SOON)
async def flaky(failures: int, context: Context) -> str:
    """fails once or twice"""
    if context.attempt <= failures:
        raise ConnectionError("the mail server does not answer")
    return f"succeeded at attempt {context.attempt}"


@app.task(name="demo.poisoned", max_attempts=2, backoff=SOON)
async def poisoned(order: int) -> None:
    """fails until given up"""
    raise ValueError(f"order {order} has no customer")


@app.task(name="demo.delayed")
async def delayed(number: int) -> int:
    """is due 3 s later"""
    return number


@app.task(name="demo.keyed")
async def keyed(order: str) -> str:
    """sent twice, with one key"""
    return f"invoice for {order}"


@app.task(name="demo.probe", queue="probe")
async def probe() -> None:
    """measures the pickup"""


TASKS = (fast, slow, flaky, poisoned, delayed, keyed, probe)
