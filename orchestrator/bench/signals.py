"""Be told to end: once, as an exception, wherever the main thread is; never while it cleans up.

A KeyboardInterrupt by descent, since psycopg cancels the statement that one comes into.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal told us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Signals:
    """What has been received, and whether it may be raised just now."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._deferred = 0

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raise the first signal that comes within the block; ignore all others, the block cleans up already."""
        before = {number: signal.signal(number, self._take) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Raise nothing within the block, which must not be left half-way; raise at its end instead."""
        known = self.received
        self._deferred += 1
        try:
            yield
        finally:
            self._deferred -= 1
        if known is None and self.received is not None:
            raise Interrupted(self.received)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        first, self.received = self.received is None, self.received or number
        if first and not self._deferred:
            raise Interrupted(number)
