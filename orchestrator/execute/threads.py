"""Run `def` handlers in threads, and part with a thread that will not end.

A thread cannot be ended from outside. One that ignores its timeout is left behind together with its pool, which
takes no new work and goes when its last thread has; a fresh pool serves the others, so no slot is lost.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
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
        self._left: list[Future[Any]] = []

    @property
    def abandoned(self) -> int:
        """How many threads that were left behind run still."""
        self._left = [call for call in self._left if not call.done()]
        return len(self._left)

    async def call(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Call it in a thread, with a copy of the caller's context; raise what it raised."""
        context = contextvars.copy_context()
        call = self._pool.submit(context.run, captured, function, arguments)
        try:
            answer = await asyncio.wrap_future(call)
        except asyncio.CancelledError:
            if not call.done():
                self._abandon(call)
            raise
        if isinstance(answer, Raised):
            raise answer.error
        return answer

    def _abandon(self, call: Future[Any]) -> None:
        """Leave a thread behind that does not end."""
        self._left.append(call)
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
