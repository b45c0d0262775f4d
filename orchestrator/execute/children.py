"""Run `def` handlers in child processes, which can be killed at any moment and crash alone.

A child is started when none is idle, so there are never more children than handlers that run at once. A child runs one
handler at a time, keeps its imported modules, and ends after IDLE_SECONDS without a task. Each has its own connection
to the worker, so a fault in one child cannot reach another. On cancellation the child is killed, with every process
that its handler has started.

Pebble and other pools that share a pipe do not fit: docs/decisions/0008-own-child-processes.md lists what was tried.
"""

import asyncio
from dataclasses import dataclass
from typing import assert_never

from orchestrator.errors import Cancel, Discard, ExecutorCrashed, HandlerSignal, Retry, Snooze
from orchestrator.execute.child import Child, Unbegun
from orchestrator.execute.child_protocol import Answer, Broken, Order, Returned, Signalled
from orchestrator.execute.child_protocol import Unfit as UnfitThere
from orchestrator.execute.error_text import RaisedInChild, Unfit
from orchestrator.execute.registry import Handler
from orchestrator.task.claimed import Claimed

# A new child has to import the application; an idle one holds its memory.
IDLE_SECONDS = 60.0
# A child that died while it was idle costs no attempt: another is tried. The attempt fails if so many cannot begin.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Written:
    """A result as JSON text, checked where the handler ran."""

    text: str


class Children:
    """The child processes of one worker."""

    def __init__(self, *, result_bytes_max: int) -> None:
        self._result_bytes_max = result_bytes_max
        self._children: set[Child] = set()
        self._idle: dict[Child, asyncio.TimerHandle] = {}

    async def call(self, handler: Handler, task: Claimed) -> Written | None:
        """Run a task's handler in a child; raise what it raised, as text. On cancellation its child is killed before
        this returns."""
        function = handler.function
        order = Order(function.__module__, function.__qualname__, task, self._result_bytes_max)
        end = ""
        for _ in range(TRIES):
            child = self._take()
            try:
                answer = await child.run(order)
            except Unbegun as error:
                end = str(error)
                continue
            except BaseException:
                child.kill()
                raise
            self._rest(child)
            return result_of(answer)
        raise ExecutorCrashed(f"the handler's process {end}, before it began")

    def stop(self) -> None:
        """Kill them all."""
        for timer in self._idle.values():
            timer.cancel()
        self._idle.clear()
        for child in self._children:
            child.kill()

    def _take(self) -> Child:
        # The child that became idle last works first, so that the others can end.
        while self._idle:
            child, timer = self._idle.popitem()
            timer.cancel()
            if not child.has_ended:
                return child
        child = Child(ended=self._ended)
        self._children.add(child)
        return child

    def _rest(self, child: Child) -> None:
        self._idle[child] = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._dismiss, child)

    def _dismiss(self, child: Child) -> None:
        del self._idle[child]
        child.dismiss()

    def _ended(self, child: Child) -> None:
        self._children.discard(child)
        if (timer := self._idle.pop(child, None)) is not None:
            timer.cancel()


def result_of(answer: Answer) -> Written | None:
    """Return the result in a child's answer, or raise its exception."""
    match answer:
        case Returned(result=result):
            return None if result is None else Written(result)
        case Broken(fault=fault):
            raise RaisedInChild(fault)
        case UnfitThere(fault=fault):
            raise Unfit(fault)
        case Signalled():
            raise signal_of(answer)
        case _:
            assert_never(answer)


def signal_of(answer: Signalled) -> HandlerSignal:
    match answer.signal:
        case "Retry":
            return Retry(answer.after_seconds, answer.reason)
        case "Snooze":
            return Snooze(answer.after_seconds or 0.0)
        case "Cancel":
            return Cancel(answer.reason)
        case "Discard":
            return Discard(answer.reason)
        case _:
            assert_never(answer.signal)
