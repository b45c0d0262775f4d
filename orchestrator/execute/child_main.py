"""What a child process does: run the handlers it is told to, one after another, until its worker is gone.

    python -c "…; child_main.main(continued)" <line> <life> <pid of the worker> <entries of its sys.path>

It looks for nothing by itself: no settings, no database. What a handler prints goes where the worker's goes. Ctrl-C
and SIGTERM are the worker's to act upon: they may reach a whole terminal or control group, and a child that ended
then would cost an attempt which the worker means to let finish.
"""

import faulthandler
import fcntl
import functools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

from orchestrator import forks
from orchestrator.errors import Cancel, Discard, HandlerSignal, PayloadRefused, Retry, Snooze
from orchestrator.execute import context, error_text, registry
from orchestrator.execute.child_protocol import (
    LENGTH,
    ORDERS,
    Answer,
    Broken,
    Order,
    Returned,
    Signalled,
    Unfit,
    framed,
)
from orchestrator.task import duration, payload

# How often to see whether the worker is our parent still.
LOOK_SECONDS = 0.5

found = functools.cache(registry.found)

E = TypeVar("E", bound=BaseException)
Continued = Callable[[str | None], AbstractContextManager[None]]
"""Goes on in the trace of a task for a block."""


def main(continued: Continued) -> None:
    """Serve one worker."""
    line_number, life, worker_pid = (int(argument) for argument in sys.argv[1:4])
    for number in (line_number, life):
        os.set_inheritable(number, False)
    die_with(worker_pid, life)
    for deaf_to in (signal.SIGINT, signal.SIGTERM):
        # Not SIG_IGN, which every program that a handler starts would inherit.
        signal.signal(deaf_to, lambda number, frame: None)
    with suppress(RuntimeError, ValueError, OSError):  # without a standard error to say it on
        faulthandler.enable()  # a segfault says where
    with forks.keep(socket.socket(fileno=line_number)) as line:
        # Ends: the worker closes the line.
        while (order := next_order(line)) is not None:
            line.sendall(framed(None))
            line.sendall(framed(performed(order, continued)))
            if any(thread.name == error_text.TEXT_THREAD for thread in threading.enumerate()):
                return  # it would take half of the time of whatever comes next


def die_with(worker_pid: int, life: int) -> None:
    """See to it that this process, and what its handlers started, do not outlive the worker, however that ends.

    The kernel closes the other end of `life` when the worker is gone. It then kills our process group, if we ask it to
    (on Linux), also while C code holds the interpreter; elsewhere, or should a process forked off the worker hold that
    end open, a thread does a moment later. Not by Linux's PR_SET_PDEATHSIG: that ends this process alone, and often
    before `life` is closed, when nobody is left to ask for its group.
    """
    with suppress(AttributeError, OSError):
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    threading.Thread(target=outlive, args=[worker_pid], name="orchestrator-life", daemon=True).start()


def outlive(worker_pid: int) -> None:
    while os.getppid() == worker_pid:
        time.sleep(LOOK_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def next_order(line: socket.socket) -> Order | None:
    """Wait for an order; None when there will be no more."""
    length = received(line, LENGTH.size)
    return ORDERS.decode(received(line, *LENGTH.unpack(length))) if length else None


def received(line: socket.socket, count: int) -> bytes:
    """Receive so many bytes, or none when the line is closed."""
    parts, left = [], count
    while left:
        part = line.recv(left)
        if not part:
            return b""
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def performed(order: Order, continued: Continued) -> Answer:
    """Run the handler; whatever it does, say how it ended."""
    task = order.task
    try:
        handler = found(order.module, order.name)
    except BaseException as error:  # it imports the user's module
        return broken(error)
    try:
        own = context.of(task, context.Nowhere(order.result_bytes_max))
        arguments = handler.bind(payload.decode(task.payload), own)
    except (PayloadRefused, TypeError) as error:
        return Unfit(error_text.of_unfit(task.type, error))
    except BaseException as error:  # binding runs the user's constructors
        return broken(error)
    try:
        with continued(task.trace_context):
            value = called(handler.function, arguments)
        if value is None:
            return Returned(own.result_text)
        return Returned(payload.encode_result(value, bytes_max=order.result_bytes_max))
    except HandlerSignal as raised:
        return told(raised, signalled)
    except BaseException as error:
        return broken(error)


def broken(error: BaseException) -> Answer:
    """Say what was raised; its text is user code, and may never come to an end."""
    return told(error, lambda raised: Broken(error_text.of(raised)))


def told(raised: E, say: Callable[[E], Answer]) -> Answer:
    return error_text.in_time(lambda: say(raised), lambda: Broken(error_text.untold(raised)))


@forks.calls_handlers
def called(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        value = function(**arguments)
    except BaseException as error:
        forks.end_copy(error)
        raise
    forks.end_copy()
    return value


def signalled(raised: HandlerSignal) -> Answer:
    try:
        match raised:
            case Snooze(after=after):
                return Signalled("Snooze", after_seconds=duration.seconds("after", after))
            case Cancel(reason=reason):
                return Signalled("Cancel", error_text.message(reason))
            case Discard(reason=reason):
                return Signalled("Discard", error_text.message(reason))
            case Retry(after=after, reason=reason):
                seconds = None if after is None else duration.seconds("after", after)
                return Signalled("Retry", error_text.message(reason), seconds)
            case _:
                return Broken(error_text.of(raised))
    except ValueError as error:  # a delay that is none: the handler's mistake
        return Broken(error_text.of(error))
