"""Whether the database can be reached: one answer for all connections of a worker, be they of threads or of the loop.

While it cannot, one connection at a time is tried, more and more slowly, and the others wait for that one: a fleet
does not stampede a server that comes back, and a server that is back is noticed within LONGEST_WAIT_SECONDS.
"""

import os
import threading
import time
from collections.abc import Iterator

from orchestrator.errors import DatabaseUnavailable
from orchestrator.postgres import transient

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 2.5
# Longer than a try may take (connect_timeout): one that never came back, since it was cancelled, blocks no other.
TRY_SECONDS = 12.0
# How often those who wait look whether the one who tries got through.
LOOK_SECONDS = 0.05


class NotNow(DatabaseUnavailable):
    """The database cannot be reached at present; another connection is being tried."""


class Reconnect:
    """Shared by the connections of one worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: Iterator[float] | None = None
        self._next_at = 0.0
        self._pid: int | None = None

    def may_try(self) -> bool:
        """Tell whether to try a connection now; who is told so says afterwards how it went. A forked copy of a process
        that had connections never may: it would act in the worker's name."""
        if self._pid not in (None, os.getpid()):
            return False
        with self._lock:
            now = time.monotonic()
            if self._waits is None:
                return True
            if now < self._next_at:
                return False
            self._next_at = now + TRY_SECONDS
            return True

    def broke(self) -> None:
        """A connection broke: the next try goes first, alone."""
        with self._lock:
            if self._waits is None:
                self._waits = transient.waits(FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
                self._next_at = 0.0

    def failed(self) -> None:
        """A try failed."""
        with self._lock:
            if self._waits is None:
                self._waits = transient.waits(FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
            self._next_at = time.monotonic() + next(self._waits)

    def succeeded(self) -> None:
        """A try got through: everybody may."""
        self._pid = os.getpid()
        with self._lock:
            self._waits = None
