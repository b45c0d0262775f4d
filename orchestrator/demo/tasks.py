"""The demo's application: one task type for each case. The demo shows the docstrings in its table."""

import time

from orchestrator.app import Orchestrator
from orchestrator.execute.context import Context
from orchestrator.task.backoff import Backoff

app = Orchestrator()

SOON = Backoff(base_seconds=0.5, factor=1.0)
"""The default backoff waits for seconds, which is too long for a demo."""


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
    """always fails"""
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
