"""Keep a forked copy of a worker's process, made by a handler that calls os.fork, from acting as the worker.

os.fork copies the handler's thread and every descriptor. Without this module the copy returns from the handler into the
worker's own code, runs the next tasks a second time, and shares the sessions whose locks and leases are the worker's.
So in a copy, before os.fork returns there:

    descriptors    those passed to `keep` are replaced by /dev/null: the sessions (outcomes, beats, the beacon), the
                   connection to the parent, the metrics port. They end with the worker, not with the copy
    the return     the copy ends when its handler returns, raises, or yields to the event loop

A copy may do anything until then: multiprocessing works, with each executor.

A return through the event loop is detected by sys.setprofile, only in copies: a check of our own would cost each
attempt of each worker. It makes Python calls on the main thread of a copy some three times as slow, if an `async def`
handler has forked it. Copies forked in a handler's thread or child process do not pay that.
"""

import inspect
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

FAILED = 1
INTERRUPTED = 130

C = TypeVar("C", bound=Callable[..., Any])


class HasDescriptor(Protocol):
    """A socket, or a connection that has one."""

    def fileno(self) -> int:
        """Return the descriptor; raise if it is closed."""


T = TypeVar("T", bound=HasDescriptor)

_kept: WeakSet[Any] = WeakSet()
_callers: set[CodeType] = set()
callers_here: set[FrameType] = set()
"""In a copy: the frames that have called the handler that forked. They must not go on."""


def keep(thing: T) -> T:
    """Register this so that no copy can use it. Return it."""
    _kept.add(thing)
    return thing


def calls_handlers(function: C) -> C:
    """Mark a function that calls a handler: a copy ends when it returns to it. A coroutine function needs nothing else;
    a plain function calls `end_copy` after the handler, if there are `callers_here`."""
    _callers.add(function.__code__)
    return function


def end_copy(error: BaseException | None = None) -> None:
    """End the process if it is a copy and the calling function has called the handler that forked."""
    if sys._getframe(1) in callers_here:
        _end(error)


def _begin_copy() -> None:
    void = os.open(os.devnull, os.O_RDWR)
    for thing in tuple(_kept):
        with suppress(Exception):  # it is closed, or fails; the others must be replaced all the same
            os.dup2(void, thing.fileno(), inheritable=False)
    os.close(void)
    has_worker = bool(_kept)
    _kept.clear()
    frames = _stack()
    coroutines = [frame for frame in frames if frame.f_code.co_flags & inspect.CO_COROUTINE]
    callers = {frame for frame in frames if frame.f_code in _callers}
    if not callers and has_worker and coroutines:
        callers = {coroutines[-1]}  # an asyncio task that a handler has begun
    callers_here.update(callers)
    if callers.intersection(coroutines):
        sys.setprofile(_watch)


def _stack() -> list[FrameType]:
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _watch(frame: FrameType, event: str, _argument: object) -> None:
    """End the copy when the caller of its handler does anything: call, return, or yield to the event loop."""
    if (event == "return" and frame in callers_here) or (event == "call" and frame.f_back in callers_here):
        _end(sys.exc_info()[1])


def _end(error: BaseException | None) -> None:
    """End the process as the interpreter would end it for this error."""
    match error:
        case None:
            code = 0
        case SystemExit(code=int(number)):
            code = number & 0xFF
        case SystemExit(code=None):
            code = 0
        case KeyboardInterrupt():
            code = INTERRUPTED
        case _:
            code = FAILED
            with suppress(Exception):
                traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


os.register_at_fork(after_in_child=_begin_copy)
