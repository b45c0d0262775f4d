"""Run a coroutine and its helpers together, and end them together."""

import asyncio
from collections.abc import Coroutine
from typing import Any


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
