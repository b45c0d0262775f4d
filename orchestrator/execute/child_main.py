"""The program of a child process: run one handler after another, as the worker orders, until the worker is gone.

    python -c "…; child_main.main(continued)" <line> <life> <pid of the worker> <entries of its sys.path>

It reads no settings and opens no database. A handler's output goes where the worker's output goes. The child ignores
Ctrl-C and SIGTERM; the worker acts on them. They may reach a whole terminal or control group, and if a child ended
then, an attempt that the worker lets finish would be lost.
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

# How often to check whether the worker is still our parent.
LOOK_SECONDS = 0.5

found = functools.cache(registry.found)

E = TypeVar("E", bound=BaseException)
Continued = Callable[[str | None], AbstractContextManager[None]]
"""Makes a context manager that continues a task's trace."""


def main(continued: Continued) -> None:
    """Serve one worker."""
    line_number, life, worker_pid = (int(argument) for argument in sys.argv[1:4])
    for number in (line_number, life):
        os.set_inheritable(number, False)
    die_with(worker_pid, life)
    for deaf_to in (signal.SIGINT, signal.SIGTERM):
        # Not SIG_IGN, since every program that a handler starts would inherit it.
        signal.signal(deaf_to, lambda number, frame: None)
    with suppress(RuntimeError, ValueError, OSError):  # there may be no standard error
        faulthandler.enable()  # prints where a segfault happened
    with forks.keep(socket.socket(fileno=line_number)) as line:
        # Ends: the worker closes the line.
        while (order := next_order(line)) is not None:
            line.sendall(framed(None))
            line.sendall(framed(performed(order, continued)))
            if any(thread.name == error_text.TEXT_THREAD for thread in threading.enumerate()):
                return  # that thread would take half of the time of the next task


def die_with(worker_pid: int, life: int) -> None:
    """Make sure that this process, and processes that its handlers started, do not outlive the worker, however it ends.

    The kernel closes the other end of `life` when the worker is gone. On Linux it then kills our process group, as
    requested here, also while C code holds the interpreter. Elsewhere, or if a process forked from the worker holds
    that end open, a thread kills the group a moment later. Linux's PR_SET_PDEATHSIG does not fit: it ends only this
    process, often before `life` is closed, and then the request to kill the group is gone.
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
    """Wait for an order. None: there will be no more."""
    length = received(line, LENGTH.size)
    return ORDERS.decode(received(line, *LENGTH.unpack(length))) if length else None


def received(line: socket.socket, count: int) -> bytes:
    """Receive `count` bytes, or none if the connection is closed."""
    parts, left = [], count
    while left:
        part = line.recv(left)
        if not part:
            return b""
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def performed(order: Order, continued: Continued) -> Answer:
    """Run the handler. Whatever it does, return how it ended."""
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
        return text_in_time(raised, signalled)
    except BaseException as error:
        return broken(error)


def broken(error: BaseException) -> Answer:
    """Return the answer for an exception. Making its text runs user code and may never end."""
    return text_in_time(error, lambda raised: Broken(error_text.of(raised)))


def text_in_time(raised: E, say: Callable[[E], Answer]) -> Answer:
    return error_text.in_time(lambda: say(raised), lambda: Broken(error_text.without_text(raised)))


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
    except ValueError as error:  # not a valid delay: the handler's mistake
        return Broken(error_text.of(error))
