"""Run `def` handlers in threads or child processes. Code of the values that handlers raise or return runs in threads,
too, never on the event loop.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from orchestrator.errors import PayloadRefused
from orchestrator.execute import error_text
from orchestrator.execute.children import Children, Written
from orchestrator.execute.context import Context
from orchestrator.execute.registry import Handler, Registry, check_within_reach
from orchestrator.execute.threads import Threads
from orchestrator.task import payload
from orchestrator.task.claimed import Claimed


class Executors:
    """The threads and the child processes of one worker; both are made when first needed."""

    def __init__(self, registry: Registry, *, size: int, result_bytes_max: int) -> None:
        for handler in registry:
            if handler.executor == "process":
                check_within_reach(handler)
        self._threads = Threads(size)
        self._children = Children(result_bytes_max=result_bytes_max)
        self._result_bytes_max = result_bytes_max

    @property
    def abandoned(self) -> int:
        """How many threads that were left behind still run. Children are killed, so none is left behind."""
        return self._threads.abandoned

    def call(
        self, handler: Handler, arguments: dict[str, Any], context: Context | None, task: Claimed
    ) -> Awaitable[Written | None]:
        """Call a `def` handler; raise what it raises. With executor="process" `arguments` is ignored: the child builds
        them from the task's payload. On cancellation a thread is left behind, and a child is killed."""
        if handler.executor == "process":
            return self._children.call(handler, task)
        given = {"handler": handler, "arguments": arguments, "context": context}
        return self._threads.call(performed, given | {"result_bytes_max": self._result_bytes_max})

    async def apart(self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
        """Run code of a handler's values in a thread. TimeoutError: it did not end in time and is interrupted."""
        given = {"function": function, "arguments": arguments}
        return await self._threads.call(called, given, interrupts=True, seconds=seconds)

    def stop(self) -> None:
        """Take no more calls. Idle threads end, and children are killed."""
        self._threads.stop()
        self._children.stop()


def performed(
    handler: Handler, arguments: dict[str, Any], context: Context | None, result_bytes_max: int
) -> Written | None:
    """In a thread: build the handler's arguments, call it, and encode its result."""
    if not handler.takes_as_is(arguments):
        try:
            arguments = handler.bind(arguments, context)
        except (PayloadRefused, TypeError) as error:
            raise error_text.Unfit(error_text.of_unfit(handler.type, error)) from None
    value = handler.function(**arguments)
    return None if value is None else Written(payload.encode_result(value, bytes_max=result_bytes_max))


def called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(*arguments)
