"""Run `def` handlers in threads, and part with a thread that will not end.

A call waits in a queue, and one thread at a time is on its way to it: woken, or just made. A thread that takes a
call and leaves others behind sends for one more before it begins. So a handler that blocks holds nobody up, since
its successor is there already, as far as there are slots; while short handlers are all run by the first thread,
which has emptied the queue before the second one gets the interpreter to itself. Answers go back in heaps, one
wake of the loop for each heap. Measured with 100 callers at once, a no-op costs 4 µs of the process, there and back;
through ThreadPoolExecutor and wrap_future, which wake a thread and the loop for each call, 15 to 30.

A thread cannot be ended from outside. One that goes on when its call is cancelled is left behind: it takes no more
work and ends when its function does, and a fresh one serves the others, so no slot is lost. One that makes text of an
exception for us is interrupted: `Interrupted` is raised in it, again and again, which ends any loop in Python.
"""

import asyncio
import contextvars
import ctypes
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orchestrator import forks

# An idle thread costs little, and a new one 0.1 ms: keep it through a lull, not through the night.
IDLE_SECONDS = 10.0
# Code may catch the first.
INTERRUPT_AGAIN_SECONDS = 0.5


class Interrupted(BaseException):
    """Raised in a thread that goes on for too long."""


@dataclass(frozen=True, slots=True)
class Raised:
    """What a function raised, carried as a value: a future will not hold StopIteration, and SystemExit or
    KeyboardInterrupt would end more than the attempt."""

    error: BaseException


class Call:
    """A function on its way to a thread, and its answer's way back. Slots and no dataclass: one is made for each."""

    __slots__ = ("answer", "arguments", "context", "dropped", "function", "future", "runner")

    def __init__(
        self, function: Callable[..., Any], arguments: dict[str, Any], future: asyncio.Future[Any]
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.future = future
        self.context = contextvars.copy_context()
        self.runner: Runner | None = None  # once it has begun, and until its function has ended
        self.dropped = False  # cancelled before it began
        self.answer: Any = None


class Threads:
    """As many threads as there are slots, for the callers of one event loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        # Guards everything below it, but for `_answers`. Held for a few lines at a time, never while anything runs.
        self._lock = threading.Lock()
        self._calls: deque[Call] = deque()
        self._idle: list[Runner] = []  # the last to fall idle is the first to work: the others may end
        self._alive = 0
        self._abandoned = 0
        self._coming = False  # a thread is on its way to the queue
        self.stopped = False
        self._answers: deque[Call] = deque()
        self._delivering = False

    @property
    def abandoned(self) -> int:
        """How many threads that were left behind run still."""
        return self._abandoned

    async def call(
        self, function: Callable[..., Any], arguments: dict[str, Any], *, interrupts: bool = False
    ) -> Any:
        """Call it in a thread, with a copy of the caller's context; raise what it raised. When cancelled, leave the
        thread behind, and interrupt it where that is wanted."""
        self._loop = asyncio.get_running_loop()
        call = Call(function, arguments, self._loop.create_future())
        with self._lock:
            if self.stopped:
                raise RuntimeError("these threads take no more work")
            self._calls.append(call)
            sent_for = self._send_for_one()
        try:
            self._let_go(sent_for)
        except RuntimeError:  # the system gives us no thread
            call.dropped = True
            raise
        try:
            answer = await call.future
        except asyncio.CancelledError:
            self._part(call)
            if interrupts:
                self._interrupt(call)
            raise
        if isinstance(answer, Raised):
            raise answer.error
        return answer

    def stop(self) -> None:
        """Take no more work, and begin nothing that waits; threads that are idle end."""
        with self._lock:
            self.stopped = True
            idle, self._idle = self._idle, []
            waiting = list(self._calls)
            self._calls.clear()
        for runner in idle:
            runner.go()
        for call in waiting:
            call.future.cancel()

    def _part(self, call: Call) -> None:
        """Forget a call that has not begun; leave the thread behind that runs it."""
        with self._lock:
            runner = call.runner
            call.dropped = True
            if runner is None:
                return
            runner.left_behind = True
            self._abandoned += 1
            self._alive -= 1
            sent_for = self._send_for_one()
        with suppress(RuntimeError):  # the system gives us no thread; one that works comes by later
            self._let_go(sent_for)

    def _interrupt(self, call: Call) -> None:
        """Raise `Interrupted` in the thread that runs a call, until it has ended."""
        with self._lock:
            if call.runner is None or call.runner.ident is None:
                return
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(call.runner.ident), ctypes.py_object(Interrupted)
            )
        self._loop.call_later(INTERRUPT_AGAIN_SECONDS, self._interrupt, call)

    # What threads do.

    def next_call(self, runner: "Runner") -> Call | None:
        """Return the next call, or None to a thread that is not needed now: idle from here on, or to end."""
        with self._lock:
            if runner.coming:
                runner.coming = self._coming = False
            while self._calls and self._calls[0].dropped:
                self._calls.popleft()
            if not self._calls:
                if not self.stopped:
                    self._idle.append(runner)
                return None
            call = self._calls.popleft()
            call.runner = runner
            sent_for = self._send_for_one()
        with suppress(RuntimeError):
            self._let_go(sent_for)
        return call

    def ended(self, call: Call, runner: "Runner") -> bool:
        """Hand the answer to the loop, unless the call was left behind; return whether the thread may go on."""
        with self._lock:
            call.runner = None
            if runner.left_behind:
                self._abandoned -= 1
                return False
        self._answers.append(call)
        if not self._delivering:
            self._delivering = True
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                self._loop.call_soon_threadsafe(self._deliver)
        return True

    def rested(self, runner: "Runner") -> bool:
        """Let an idle thread end, unless it was sent for just now; return whether it may."""
        with self._lock:
            if runner in self._idle:
                self._idle.remove(runner)
                self._alive -= 1
                return True
            return False

    def _send_for_one(self) -> "Runner | None":
        """Choose who comes to what waits, if nobody is on the way; to be let go once the lock is free."""
        if self._coming or not self._calls:
            return None
        if self._idle:
            runner = self._idle.pop()
        elif self._alive < self._size:
            self._alive += 1
            runner = Runner(self)
        else:
            return None
        runner.coming = self._coming = True
        return runner

    def _let_go(self, runner: "Runner | None") -> None:
        """Send off who was chosen; RuntimeError when the system gives us no thread."""
        if runner is None:
            return
        try:
            runner.go()
        except RuntimeError:
            with self._lock:
                self._alive -= 1
                self._coming = False
            raise

    def _deliver(self) -> None:
        # First the flag: an answer that comes after the last look sends for us again.
        self._delivering = False
        while self._answers:
            call = self._answers.popleft()
            if not call.future.done():
                call.future.set_result(call.answer)


class Runner(threading.Thread):
    """One thread. A daemon: whoever was left behind must not keep the interpreter from ending."""

    def __init__(self, threads: Threads) -> None:
        super().__init__(name="orchestrator-handler", daemon=True)
        self._threads = threads
        self._wake = threading.Lock()
        self._wake.acquire()
        self.coming = False
        self.left_behind = False

    def go(self) -> None:
        """Start it, or wake it."""
        if self.ident is None:
            self.start()
        else:
            self._wake.release()

    def run(self) -> None:
        """Serve; an interruption that comes when the call has just ended ends the thread."""
        with suppress(Interrupted):
            self._serve()

    def _serve(self) -> None:
        """Take calls while there are any, then rest; end when nobody has called for a while."""
        while True:
            while (call := self._threads.next_call(self)) is not None:
                call.answer = call.context.run(captured, call.function, call.arguments)
                if not self._threads.ended(call, self):
                    return
                del call  # what it holds is not ours to keep while we wait
            if self._threads.stopped or self._rested():
                return

    def _rested(self) -> bool:
        """Wait to be woken; return whether nobody did for so long that the thread may end."""
        if self._wake.acquire(timeout=IDLE_SECONDS):
            return False
        if self._threads.rested(self):
            return True
        self._wake.acquire()  # who has sent for us is just about to wake us
        return False


@forks.calls_handlers
def captured(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        answer = function(**arguments)
    except BaseException as error:
        if forks.callers_here:
            forks.end_copy(error)
        return Raised(error)
    if forks.callers_here:
        forks.end_copy()
    return answer
