"""The event loop that a worker runs on where the process is ours: uvloop's if it is installed, else asyncio's.

It halves what the loop itself costs (handlers that sleep five times: 11,700 tasks/s against 6,600, on two busy cores),
and changes nothing where there is little of that (a drain of handlers that do nothing: the same CPU seconds to 1 %).

The collector of cycles comes less often there, and by the clock: a worker that makes thousands of objects a second
would have it look, again and again, at tasks that wait and are no garbage. What was loaded by then stays out of it for
good. A drain of no-ops is a tenth faster. Elsewhere than in a main thread it is left alone: the process has other work.

Nothing here or in the stations leans on what only one of them has. An application that calls `arun_worker` on a loop of
its own keeps that loop.
"""

import asyncio
import gc
import importlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

# So many objects that were made and are still there call the collector at once, as Python's own 700 would (a claim
# brings more); fewer have it come within so long, since a few may hold much memory.
YOUNG_OBJECTS = 10_000
COLLECT_SECONDS = 0.5

T = TypeVar("T")
Factory = Callable[[], asyncio.AbstractEventLoop]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on the fastest loop there is."""
    with asyncio.Runner(loop_factory=fastest()) as runner:
        usual = gc.get_threshold()
        if threading.current_thread() is not threading.main_thread() or not (gc.isenabled() and usual[0]):
            return runner.run(main)
        with collecting_seldom(usual):
            return runner.run(beside(collect(usual), main))


@contextmanager
def collecting_seldom(usual: tuple[int, int, int]) -> Iterator[None]:
    """Have the collector of cycles called seldom, and leave alone what is there already."""
    gc.collect()
    frozen_before = gc.get_freeze_count()
    gc.freeze()
    gc.set_threshold(max(YOUNG_OBJECTS, usual[0]), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        if not frozen_before:
            gc.unfreeze()


async def collect(usual: tuple[int, int, int]) -> None:
    """Call the collector by the clock where Python would have called it meanwhile, for ever. Python decides on older
    objects only where it calls the collector itself, so that is decided here, too: by the calls that it has counted."""
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        young, middle, old = gc.get_count()
        if young > usual[0]:
            gc.collect(2 if old > usual[2] else 1 if middle > usual[1] else 0)


async def beside(helper: Coroutine[Any, Any, None], main: Coroutine[Any, Any, T]) -> T:
    """Run one to its end, with the other beside it."""
    helping = asyncio.ensure_future(helper)
    try:
        return await main
    finally:
        helping.cancel()


def fastest() -> Factory | None:
    """Return what makes the fastest loop there is; None is asyncio's own.

    uvloop is loaded here, by whoever runs a worker, and not with this module: producers have no use for it.
    """
    try:
        factory: Factory = importlib.import_module("uvloop").new_event_loop
    except (ImportError, AttributeError):  # a mere folder of that name can be imported, too
        return None
    return factory
