"""Run what serves and what helps it side by side: one end for all."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_fault(serving: Coroutine[Any, Any, None], *helpers: Coroutine[Any, Any, None]) -> None:
    """Serve until done, with the helpers beside; a helper that fails ends it all, with its exception."""
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
