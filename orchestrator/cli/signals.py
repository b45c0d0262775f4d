"""Make SIGTERM and SIGHUP act like Ctrl-C, so that a command prints its last message and cleans up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGTERM and SIGHUP within the block."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
