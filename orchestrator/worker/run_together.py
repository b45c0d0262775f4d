"""Run coroutines together: a main one with helpers, which end together; or some in the background."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Background:
    """Coroutines that run on while their starter goes on."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start one."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Wait until all have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def first_fault(serving: Coroutine[Any, Any, None], *helpers: Coroutine[Any, Any, None]) -> None:
    """Run `serving` to its end, with the helpers beside it. If a helper fails, end all and raise its exception."""
    main = asyncio.create_task(serving)
    tasks = [main, *map(asyncio.create_task, helpers)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
