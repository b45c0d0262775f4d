"""Turn the first signal to end into one exception in the main thread, but never while it cleans up.

The exception is a subclass of KeyboardInterrupt, because psycopg cancels a running statement at one.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal ended the run."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Signals:
    """The received signal, and whether it may be raised now."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._deferred = 0

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raise the first signal that arrives in the block. Ignore later ones: the block already cleans up."""
        before = {number: signal.signal(number, self._take) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Raise nothing inside the block, which must run to its end. Raise at its end instead."""
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
