"""Run `def` handlers in threads, and leave a thread behind that does not end.

A call waits in a queue, and one thread at a time is on its way to it: woken, or just started. If a thread takes a call
and others are in the queue, it wakes or starts one more thread before it begins. So a handler that blocks does not
delay the others: the next thread is already there, as long as there are slots. Short handlers are all run by the first
thread, which empties the queue before the second one gets the interpreter lock. Answers go back in batches, with one
wake of the loop for each batch. Measured with 100 callers at once, a no-op costs 4 µs of CPU in all; through
ThreadPoolExecutor and wrap_future, which wake a thread and the loop for each call, it costs 15 to 30.

A thread cannot be ended from outside. A thread that goes on when its call is cancelled is left behind: it takes no more
calls and ends with its function, and a new thread serves the other calls, so no slot is lost. A thread that only makes
the text of an exception is interrupted: `Interrupted` is raised in it repeatedly, which ends any loop in Python.
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

# An idle thread costs little, and a new one 0.1 ms: keep it for a short pause only.
IDLE_SECONDS = 10.0
# The code may catch the first `Interrupted`.
INTERRUPT_AGAIN_SECONDS = 0.5


class Interrupted(BaseException):
    """Raised in a thread that runs too long."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception of a function, carried as a value: a future does not accept StopIteration, and SystemExit or
    KeyboardInterrupt would end more than the attempt."""

    error: BaseException


class Call:
    """A function to call in a thread, and its answer. A plain class with slots, since one is made for each attempt."""

    __slots__ = ("answer", "arguments", "context", "dropped", "function", "future", "runner")

    def __init__(
        self, function: Callable[..., Any], arguments: dict[str, Any], future: asyncio.Future[Any]
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.future = future
        self.context = contextvars.copy_context()
        self.runner: Runner | None = None  # from when it begins until its function has ended
        self.dropped = False  # cancelled before it began
        self.answer: Any = None


class Threads:
    """As many threads as there are slots, for the callers of one event loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        # Guards everything below except `_answers`. Held for a few lines at a time, never while a function runs.
        self._lock = threading.Lock()
        self._calls: deque[Call] = deque()
        self._idle: list[Runner] = []  # the thread that became idle last works first, so the others can end
        self._alive = 0
        self._abandoned = 0
        self._coming = False  # a thread is on its way to the queue
        self.stopped = False
        self._answers: deque[Call] = deque()
        self._delivering = False

    @property
    def abandoned(self) -> int:
        """How many threads that were left behind still run."""
        return self._abandoned

    async def call(
        self, function: Callable[..., Any], arguments: dict[str, Any], *, interrupts: bool = False
    ) -> Any:
        """Call a function in a thread, with a copy of the caller's context; raise what it raises. On cancellation leave
        the thread behind, and interrupt it if `interrupts`."""
        self._loop = asyncio.get_running_loop()
        call = Call(function, arguments, self._loop.create_future())
        with self._lock:
            if self.stopped:
                raise RuntimeError("these threads take no more work")
            self._calls.append(call)
            sent_for = self._send_for_one()
        try:
            self._let_go(sent_for)
        except RuntimeError:  # the system refuses a new thread
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
        """Take no more calls, cancel those that wait, and end idle threads."""
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
        """Drop a call that has not begun, or leave behind the thread that runs it."""
        with self._lock:
            runner = call.runner
            call.dropped = True
            if runner is None:
                return
            runner.left_behind = True
            self._abandoned += 1
            self._alive -= 1
            sent_for = self._send_for_one()
        with suppress(RuntimeError):  # the system refuses a new thread; a busy one takes the call later
            self._let_go(sent_for)

    def _interrupt(self, call: Call) -> None:
        """Raise `Interrupted` in the thread that runs a call, until it has ended."""
        with self._lock:
            runner = call.runner
            if runner is None or runner.ident is None:
                return
            if not runner.is_alive():
                # Interrupted just after its function, before `ended`. Another thread may get its ident.
                call.runner = None
                self._abandoned -= 1
                return
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(runner.ident), ctypes.py_object(Interrupted)
            )
        self._loop.call_later(INTERRUPT_AGAIN_SECONDS, self._interrupt, call)

    # Called by the threads.

    def next_call(self, runner: "Runner") -> Call | None:
        """Return the next call. None: there is none, and the thread is now idle, or has to end."""
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
        """Pass the answer to the loop, unless the thread was left behind. Return whether the thread may go on."""
        with self._lock:
            call.runner = None
            if runner.left_behind:
                self._abandoned -= 1
                return False
        self._answers.append(call)
        if not self._delivering:
            self._delivering = True
            with suppress(RuntimeError):  # the loop has ended, so no caller waits
                self._loop.call_soon_threadsafe(self._deliver)
        return True

    def rested(self, runner: "Runner") -> bool:
        """Let an idle thread end, unless it has just been chosen for a call. Return whether it may end."""
        with self._lock:
            if runner in self._idle:
                self._idle.remove(runner)
                self._alive -= 1
                return True
            return False

    def _send_for_one(self) -> "Runner | None":
        """Choose a thread for the waiting calls, if none is on its way. Start or wake it after the lock is released."""
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
        """Start or wake the chosen thread. RuntimeError if the system refuses a new thread."""
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
        # Clear the flag first: then an answer that comes after the loop below schedules this again.
        self._delivering = False
        while self._answers:
            call = self._answers.popleft()
            if not call.future.done():
                call.future.set_result(call.answer)


class Runner(threading.Thread):
    """One thread. A daemon, since a thread left behind must not keep the interpreter from ending."""

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
        """Serve calls. An interruption that arrives just after its call has ended ends the thread."""
        with suppress(Interrupted):
            self._serve()

    def _serve(self) -> None:
        """Take calls while there are any, then rest. End after IDLE_SECONDS without a call."""
        while True:
            while (call := self._threads.next_call(self)) is not None:
                call.answer = call.context.run(captured, call.function, call.arguments)
                if not self._threads.ended(call, self):
                    return
                del call  # so that its values are freed while this thread waits
            if self._threads.stopped or self._rested():
                return

    def _rested(self) -> bool:
        """Wait for a wake. Return True if none came for IDLE_SECONDS and the thread may end."""
        if self._wake.acquire(timeout=IDLE_SECONDS):
            return False
        if self._threads.rested(self):
            return True
        self._wake.acquire()  # this thread has just been chosen, so its wake arrives now
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
