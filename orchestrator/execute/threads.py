"""Run `def` handlers in threads, and part with a thread that will not end.

A thread cannot be ended from outside. One that ignores its timeout is left behind together with its pool, which
takes no new work and goes when its last thread has; a fresh pool serves the others, so no slot is lost.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Raised:
    """What a function raised, carried as a value: a future will not hold StopIteration, and SystemExit or
    KeyboardInterrupt would end more than the attempt."""

    error: BaseException


class Threads:
    """As many threads as there are slots."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._pool = self._new_pool()
        self.abandoned = 0

    async def call(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Call it in a thread, with a copy of the caller's context; raise what it raised."""
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._pool, context.run, captured, function, arguments)
        if isinstance(answer, Raised):
            raise answer.error
        return answer

    def abandon(self) -> None:
        """Leave a thread that ignored its timeout behind."""
        self.abandoned += 1
        self._pool.shutdown(wait=False)
        self._pool = self._new_pool()

    def stop(self) -> None:
        """Take no more work; threads that are idle end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._size, thread_name_prefix="orchestrator-handler")


def captured(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return function(**arguments)
    except BaseException as error:
        return Raised(error)
