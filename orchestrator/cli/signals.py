"""Let a command that is told to end do as after Ctrl-C: what it has to say and to put in order is said and done."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Take SIGTERM and SIGHUP for Ctrl-C, within the block."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
