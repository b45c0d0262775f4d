"""Where a `def` handler runs: in a thread of ours, or in a child process."""

from collections.abc import Awaitable
from typing import Any

from orchestrator.execute.children import Children
from orchestrator.execute.registry import Handler, Registry, check_within_reach
from orchestrator.execute.threads import Threads
from orchestrator.task.model import Claimed


class Executors:
    """The threads and the child processes of one worker; both are made when first needed."""

    def __init__(self, registry: Registry, *, size: int, result_bytes_max: int) -> None:
        for handler in registry:
            if handler.executor == "process":
                check_within_reach(handler)
        self._threads = Threads(size)
        self._children = Children(result_bytes_max=result_bytes_max)

    @property
    def abandoned(self) -> int:
        """How many threads that were left behind run still. Children are killed, so there are none of them."""
        return self._threads.abandoned

    def call(self, handler: Handler, arguments: dict[str, Any], task: Claimed) -> Awaitable[Any]:
        """Call a handler that is no coroutine function; raise what it raised. With executor="process" the arguments
        are not looked at: the child builds them from the task's payload. When cancelled, a thread is left behind, a
        child is killed."""
        if handler.executor == "process":
            return self._children.call(handler, task)
        return self._threads.call(handler.function, arguments)

    def stop(self) -> None:
        """Take no more work; idle threads end, children are killed."""
        self._threads.stop()
        self._children.stop()
