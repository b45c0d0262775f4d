"""Whether the database can be reached: one answer for all connections of a worker, on threads and on the loop.

While it cannot be reached, only one connection at a time is tried, at growing intervals, and the others wait. So a
fleet does not overload a server that comes back, and the worker notices its return within LONGEST_WAIT_SECONDS.
"""

import os
import threading
import time
from collections.abc import Iterator

from orchestrator.errors import DatabaseUnavailable
from orchestrator.postgres import transient_errors

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 2.5
# Longer than a try may take (connect_timeout). A cancelled try reports no result; after this time another may begin.
TRY_SECONDS = 12.0
# How often the waiting connections check whether the try has succeeded.
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
        """Return whether the caller may try to connect now. If so, it calls `succeeded` or `failed` afterwards. A
        forked copy of a process that had connections never may: it would act in the worker's name."""
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
        """A connection broke: from now on one connection at a time is tried, the first at once."""
        with self._lock:
            if self._waits is None:
                self._waits = transient_errors.waits(FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
                self._next_at = 0.0

    def failed(self) -> None:
        """A try failed."""
        with self._lock:
            if self._waits is None:
                self._waits = transient_errors.waits(FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
            self._next_at = time.monotonic() + next(self._waits)

    def succeeded(self) -> None:
        """A try succeeded: all connections may try."""
        self._pid = os.getpid()
        with self._lock:
            self._waits = None
