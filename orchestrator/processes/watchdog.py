"""End a worker's process that cannot end by itself: a thread checks it twice a second.

    a stop without effect          a signal came, and the process still exists long after the grace. The loop is
                                   blocked, or the end of the interpreter waits for a thread
    a hung worker                  the loop is blocked longer than every timeout of its running tasks (stall.py)
    lost descriptors               a handler has closed all of them (os.closerange without the exec after it). The
                                   process cannot use its database, its parent or its event loop
    a lost interpreter             C code keeps the interpreter's lock, so no thread runs. faulthandler has a thread
                                   that needs no lock; it prints where. A process that was stopped (SIGSTOP) for as
                                   long looks the same to that thread, and ends when it goes on

The process then ends with status 1, without running more Python code. Its parent or its service manager starts another,
and its tasks are recovered like those of a killed process. Only `orchestrator worker` uses this: the worker must not
end a process that belongs to an application.

A handler of Python runs on the main thread only, between two lines of Python. It does not run while the main thread
waits in C code. It also does not run while the main thread sleeps and the kernel has given the signal to another
thread: on a busy machine a thread that starts another takes it (25 of 60 signals). The C code of Python writes the
number of each signal to a descriptor, on whichever thread takes it. The watchdog reads that descriptor.
"""

import asyncio
import atexit
import faulthandler
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

from orchestrator import events
from orchestrator.processes import exit_codes
from orchestrator.worker.worker import Worker

LOOK_SECONDS = 0.5
END_SECONDS = 45.0
"""Beyond the grace. The slowest end takes some 40 s, while the database is away: last outcomes, then the last row."""

BLOCKED_SECONDS = 5.0
"""After a second signal, if the loop has not noticed the first. No task is released then."""

CLOSE_SECONDS = 15.0
"""After a signal that comes when the loop has ended: the application closes. `orchestrator dev` waits up to 10 s for
its server."""

SAY_SECONDS = 1.0

LOCKED_SECONDS = 60.0
"""Beyond every timeout, how long C code may keep the interpreter's lock."""

# Each check makes a new faulthandler thread.
LOCKED_LOOK_SECONDS = 5.0
# A longer time means "never", and faulthandler does not accept it.
LOCKED_SECONDS_MAX = 1_000_000.0


class Watchdog:
    """Watches a worker's process while the block lasts, and after it until a requested stop has ended the process."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._runs = self._obeys = False
        self._lock_looked_at = -math.inf
        # Two descriptors that only the watchdog uses: code that closes these has closed others as well.
        self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        self._identity = self._look()
        self._received: Callable[[], None] = lambda: None
        self._deadline = math.inf
        self._thread = threading.Thread(target=self._run, name="orchestrator watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._runs = True
        self._watch_lock()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._runs = False
        faulthandler.cancel_dump_traceback_later()
        if self._obeys:
            with suppress(OSError, ValueError):  # the pipe is closed
                self._take_wakeups()  # uvloop has reset it
        if kind is not None:
            self._end_if_closed()
            self.end_within(END_SECONDS)

    def obey(self, stop: Callable[[], None], *, grace_seconds: float, hurries: bool) -> None:
        """Call `stop` on the running loop at each stop signal, and make sure that the process then ends. A second
        signal ends it sooner if `hurries`, and otherwise has no effect.

        asyncio restores the default handlers when its loop closes. A signal that came then would kill a process that
        has stopped cleanly. So these are Python's handlers, which stay.
        """
        loop = asyncio.get_running_loop()
        signals = heeded = 0

        def heed() -> None:
            nonlocal heeded
            heeded += 1
            stop()

        def received() -> None:
            nonlocal signals
            signals += 1
            if signals == 1 or not hurries:
                self.end_within(grace_seconds + END_SECONDS)
            else:
                self.end_within(END_SECONDS if heeded else BLOCKED_SECONDS)
            try:
                loop.call_soon_threadsafe(heed)
            except RuntimeError:  # the loop has ended
                self.end_within(CLOSE_SECONDS)

        self._received = received
        self._obeys = True
        for number in exit_codes.STOPPING:
            signal.signal(number, self._take_again)
        self._take_wakeups()
        os.register_at_fork(after_in_child=obey_no_more)

    def _take_wakeups(self) -> int:
        """Let Python write the numbers of signals to the watchdog's pipe. Return the descriptor that it wrote to."""
        return signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)

    def _take_again(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal that did not reach the pipe: other code has set its own descriptor, as asyncio does."""
        with suppress(OSError, ValueError):  # the pipe is closed
            if self._take_wakeups() != self._pipe[1]:
                os.write(self._pipe[1], bytes([number]))

    def end_within(self, seconds: float) -> None:
        """End the process after so many seconds at most."""
        self._deadline = min(self._deadline, time.monotonic() + seconds)

    def _run(self) -> None:
        # Ends: with the process.
        while True:
            self._wait()
            self._end_if_closed()
            if time.monotonic() > self._deadline:
                self._end("it did not end in time after the request to stop")
            if self._runs:
                if self._worker.stall.is_hung:
                    self._end("a handler blocks its event loop for longer than every timeout")
                self._watch_lock()

    def _wait(self) -> None:
        """Wait until the next look is due, or a signal comes. The descriptor gets the numbers of all signals."""
        poll = select.poll()
        poll.register(self._pipe[0], select.POLLIN)
        if poll.poll(LOOK_SECONDS * 1000):
            with suppress(OSError):  # it is closed
                for number in os.read(self._pipe[0], select.PIPE_BUF):
                    if number in exit_codes.STOPPING:
                        self._received()

    def _watch_lock(self) -> None:
        """Put off the end by faulthandler. While no thread runs, it is not put off."""
        now = time.monotonic()
        if now - self._lock_looked_at < LOCKED_LOOK_SECONDS:
            return
        self._lock_looked_at = now
        seconds = LOCKED_SECONDS + self._worker.stall.patience_seconds
        with suppress(Exception):  # there may be no standard error
            if seconds < LOCKED_SECONDS_MAX:
                faulthandler.dump_traceback_later(seconds, exit=True)
            else:
                faulthandler.cancel_dump_traceback_later()

    def _end_if_closed(self) -> None:
        if self._look() != self._identity:
            self._end("a handler has closed the descriptors of the process")

    def _look(self) -> list[tuple[int, int]]:
        """Return the identities of the two descriptors. Empty: they are closed."""
        with suppress(OSError):
            return [(status.st_dev, status.st_ino) for status in map(os.fstat, self._pipe)]
        return []

    def _end(self, reason: str) -> None:
        # In a thread, since the log itself may block.
        saying = threading.Thread(target=self._say, args=[reason], daemon=True)
        with suppress(RuntimeError):  # no thread can be started any more
            saying.start()
            saying.join(SAY_SECONDS)
        os._exit(exit_codes.FAILED)

    def _say(self, reason: str) -> None:
        with suppress(Exception):
            events.emit(events.ProcessAborted(os.getpid(), reason))
            sys.stderr.flush()


def ignore_signals_at_exit() -> None:
    """Ignore stop signals while the interpreter ends. It restores the default handlers first, and a signal would then
    kill a process that has stopped cleanly.

    Call this before the application is loaded: the application's own functions at exit then run earlier.
    """
    atexit.register(ignore_signals)


def ignore_signals() -> None:
    """Ignore all stop signals: nothing is left to stop."""
    for number in exit_codes.STOPPING:
        signal.signal(number, signal.SIG_IGN)


def obey_no_more() -> None:
    """In a forked copy, restore the default signal handling: its loop never turns, and its wakeups reach the worker."""
    signal.set_wakeup_fd(-1)
    for number in exit_codes.STOPPING:
        signal.signal(number, signal.SIG_DFL)
