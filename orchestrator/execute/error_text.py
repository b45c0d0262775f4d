"""Turn an exception of a handler into text that PostgreSQL can hold and a person can read.

An exception is user code: its __str__ may raise, or return a hundred megabytes, or NUL, or never return. So the text is
made off the event loop, and within TEXT_SECONDS; after that the attempt ends without it. The class of an exception is
read from `type`, where it cannot be overridden: an attribute __class__ or __qualname__ is user code, too.

Values that PostgreSQL quotes from a row in an error are left out: a reader of the error may lack the right to read that
row.
"""

import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from orchestrator.errors import ExecutorCrashed, HandlerSignal
from orchestrator.execute.threads import Interrupted
from orchestrator.postgres import quoting
from orchestrator.task.outcome import Fault

MESSAGE_CHARACTERS_MAX = 2_000
TRACEBACK_CHARACTERS_MAX = 16_000
# The frames between the loop and the handler do not help the reader.
OUR_FRAMES = ("orchestrator.execute.", "asyncio.", "concurrent.futures.")
# If more exceptions than this are chained as causes or contexts, the text has only the first one's traceback.
LINKS_MAX = 100
# A hundred times what a long traceback takes on a busy machine.
TEXT_SECONDS = 2.0
TEXT_THREAD = "orchestrator error text"

QUALIFIED_NAME = vars(type)["__qualname__"].__get__
MODULE = vars(type)["__module__"].__get__

T = TypeVar("T")


class RaisedInChild(Exception):
    """An exception that a handler raised in a child process, as text."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Unfit(HandlerSignal):
    """A payload did not fit its handler in a child process or a thread. The task becomes a dead letter."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def of(error: BaseException) -> Fault:
    """Describe an exception: class, message, traceback."""
    if type(error) is RaisedInChild:
        return error.fault
    if type(error) is ExecutorCrashed:
        return Fault("ExecutorCrashed", message(error))  # our own: its frames do not help the reader
    quieten(error)
    return Fault(class_name(error), message(error), trace(error))


def without_text(error: BaseException) -> Fault:
    """Describe an exception whose text could not be made in time."""
    return Fault(class_name(error), f"(its text could not be made within {TEXT_SECONDS:g} s)")


def in_time(make: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """Return `make()`, run in its own thread. If that takes too long, leave the thread behind, return `otherwise()`."""
    made: list[T] = []
    thread = threading.Thread(target=lambda: made.append(make()), name=TEXT_THREAD, daemon=True)
    thread.start()
    thread.join(TEXT_SECONDS)
    return made[0] if made else otherwise()


def of_unfit(kind: str, error: BaseException) -> Fault:
    """Describe why a payload does not fit the handler of a type."""
    return Fault(class_name(error), f"the payload does not fit the handler {kind}: {message(error)}")


def quieten(error: BaseException) -> None:
    """Remove row values from a database error, also where it is the cause or the context of this exception."""
    with suppress(Exception):  # its attributes are user code, too
        quoting.hide_all_values(error)


def class_name(error: BaseException) -> str:
    """Name the class as a person would grep for it: builtins without their module."""
    kind = type(error)
    # Read through `type`: a metaclass may define others.
    name: str = QUALIFIED_NAME(kind)
    module = MODULE(kind)
    if type(module) is str and module != "builtins":
        name = f"{module}.{name}"
    return clean(name)[:200]


def message(value: object) -> str:
    """Return the text of an exception or of a handler's reason. A reason should be text but can be any object."""
    try:
        text = str(value)
    except Interrupted:
        raise
    except BaseException as broken:
        # Also SystemExit: it would end the worker.
        text = f"(its __str__ raised {class_name(broken)})"
    return cut(text, MESSAGE_CHARACTERS_MAX)


def trace(error: BaseException) -> str:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith(OUR_FRAMES):
        frames = frames.tb_next
    try:
        # Only the last frames of each cause: a recursion error has a thousand.
        if has_more_links(error, LINKS_MAX):
            text = "".join(traceback.format_tb(frames, limit=-50)) + class_name(error)
        else:
            text = "".join(traceback.format_exception(type(error), error, frames, limit=-50))
    except Exception as broken:
        text = f"(its traceback could not be written: {class_name(broken)})"
    return cut(text, TRACEBACK_CHARACTERS_MAX)


def has_more_links(error: BaseException, most: int) -> bool:
    """Tell whether more exceptions than this are the causes, contexts or parts of one."""
    waiting, met = [error], set[int]()
    # Ends: each exception is visited once, and at most `most` + 1 of them.
    while waiting and len(met) <= most:
        link = waiting.pop()
        if id(link) not in met:
            met.add(id(link))
            parts = link.exceptions[: most + 1] if isinstance(link, BaseExceptionGroup) else ()
            waiting += [near for near in (link.__cause__, link.__context__, *parts) if near is not None]
    return len(met) > most


def cut(text: str, characters_max: int) -> str:
    """Keep the beginning and a longer part of the end, where a traceback is most useful."""
    if len(text) > characters_max:
        head = characters_max // 4
        left_out = len(text) - characters_max
        text = f"{text[:head]}\n… {left_out} characters left out …\n{text[head - characters_max :]}"
    return clean(text)


def clean(text: str) -> str:
    """Replace what PostgreSQL's text cannot hold: NUL and lone surrogates."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
