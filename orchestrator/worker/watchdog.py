"""End a worker process that cannot end by itself. Of `orchestrator worker` alone: no other process is ours to end.

    the loop is blocked for longer than every timeout of what runs    the process ends, and is started again
    told to stop, and there long after the grace                      it ends
    C code keeps the interpreter's lock, so that no thread runs       it ends after `LOCKED_SECONDS` more: faulthandler
                                                                      has a thread that needs no lock; it says where

It needs neither the loop nor a file descriptor: a handler may block the one and close the other. So it is told of
signals by Python's own handler, which runs in the main thread as soon as that runs Python code or waits; the loop is
told as ever.
"""

import faulthandler
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

from orchestrator.worker import codes
from orchestrator.worker.worker import Worker

LOOK_SECONDS = 0.5
MARGIN_SECONDS = 20.0
"""Beyond its grace, what an end takes at most while the database answers."""

LOCKED_SECONDS = 60.0
# Each time is a new thread.
LOCKED_LOOK_SECONDS = 5.0
# Longer is for ever, and for faulthandler too long.
LOCKED_SECONDS_MAX = 1_000_000.0


class Watchdog:
    """Watches over the worker of this process."""

    def __init__(self, worker: Worker, *, margin_seconds: float = MARGIN_SECONDS) -> None:
        self._worker = worker
        self._margin_seconds = margin_seconds
        self._end_at: float | None = None
        self._lock_looked_at = 0.0
        self._done = threading.Event()

    def start(self) -> None:
        """Begin to watch. Call it in the main thread, once the loop has its handlers of the signals."""
        for number in codes.STOPPING:
            signal.signal(number, self._signalled)
        self._watch_lock(time.monotonic())
        threading.Thread(target=self._run, name="orchestrator watchdog", daemon=True).start()

    def stop(self) -> None:
        """Watch no more."""
        self._done.set()
        faulthandler.cancel_dump_traceback_later()

    def stop_asked(self) -> None:
        """The worker is told to stop: from now on it has its grace and the margin. Any thread may say so."""
        if self._end_at is None:
            grace_seconds = self._worker.config.grace_seconds
            self._end_at = time.monotonic() + grace_seconds + self._margin_seconds

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        self.stop_asked()

    def _run(self) -> None:
        # Ends: stop() is called, or the process ends.
        while not self._done.wait(LOOK_SECONDS):
            if self._worker.stall.is_hung or (self._end_at is not None and time.monotonic() > self._end_at):
                end()
            self._watch_lock(time.monotonic())

    def _watch_lock(self, now: float) -> None:
        if now - self._lock_looked_at < LOCKED_LOOK_SECONDS:
            return
        self._lock_looked_at = now
        seconds = LOCKED_SECONDS + self._worker.stall.patience_seconds
        with suppress(Exception):  # without a standard error to say it on
            if seconds < LOCKED_SECONDS_MAX:
                faulthandler.dump_traceback_later(seconds, exit=True)
            else:
                faulthandler.cancel_dump_traceback_later()


def end() -> None:
    """End the process, whatever its threads do."""
    with suppress(Exception):
        sys.stderr.flush()
    os._exit(codes.FAILED)
