"""Turn whatever a handler raised into text that PostgreSQL can hold and a person can read.

An exception is user code: its __str__ may raise, or return a hundred megabytes, or NUL, or never return. So text is
made off the event loop, and for TEXT_SECONDS at most; the attempt ends all the same, with what is known without it. The
class of an exception is read where it cannot be overridden: an attribute __class__ or __qualname__ is user code, too.

What PostgreSQL quotes of a row in an error is left out: who reads of a failure may not be who may read that row.
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
# The frames between the loop and the handler tell the reader nothing.
OUR_FRAMES = ("orchestrator.execute.", "asyncio.", "concurrent.futures.")
# A traceback of more exceptions than this, each the cause or the context of another, is that of the first one alone.
LINKS_MAX = 100
# A hundred times what a long traceback takes on a busy machine.
TEXT_SECONDS = 2.0
TEXT_THREAD = "orchestrator error text"

QUALIFIED_NAME = vars(type)["__qualname__"].__get__
MODULE = vars(type)["__module__"].__get__

T = TypeVar("T")


class Told(Exception):
    """What a handler raised in another process, where it was turned into text."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Unfit(HandlerSignal):
    """A payload did not fit its handler in another process; a dead letter, as here."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def of(error: BaseException) -> Fault:
    """Describe an exception: class, message, traceback."""
    if type(error) is Told:
        return error.fault
    if type(error) is ExecutorCrashed:
        return Fault("ExecutorCrashed", message(error))  # ours, and no frame of it tells the reader anything
    quieten(error)
    return Fault(class_name(error), message(error), trace(error))


def untold(error: BaseException) -> Fault:
    """Describe an exception whose text does not come to an end."""
    return Fault(class_name(error), f"(its text could not be made within {TEXT_SECONDS:g} s)")


def in_time(make: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """Make something in a thread of its own, or something else when that takes too long. The thread is left behind."""
    made: list[T] = []
    thread = threading.Thread(target=lambda: made.append(make()), name=TEXT_THREAD, daemon=True)
    thread.start()
    thread.join(TEXT_SECONDS)
    return made[0] if made else otherwise()


def of_unfit(kind: str, error: BaseException) -> Fault:
    """Describe why a payload does not fit the handler of a type."""
    return Fault(class_name(error), f"the payload does not fit the handler {kind}: {message(error)}")


def quieten(error: BaseException) -> None:
    """Leave out what a database's error quotes, where it is one, and where it is what this one came of."""
    with suppress(Exception):  # its attributes are user code, too
        quoting.hide_all_values(error)


def class_name(error: BaseException) -> str:
    """Name the class as a person would grep for it: builtins without their module."""
    kind = type(error)
    # As type has them: a metaclass may have others.
    name: str = QUALIFIED_NAME(kind)
    module = MODULE(kind)
    if type(module) is str and module != "builtins":
        name = f"{module}.{name}"
    return clean(name)[:200]


def message(said: object) -> str:
    """Return what an exception says, or the reason that a handler gave, which should be text and may be anything."""
    try:
        text = str(said)
    except Interrupted:
        raise
    except BaseException as broken:
        # SystemExit too: it would end the worker.
        text = f"(its __str__ raised {class_name(broken)})"
    return cut(text, MESSAGE_CHARACTERS_MAX)


def trace(error: BaseException) -> str:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith(OUR_FRAMES):
        frames = frames.tb_next
    try:
        # The last frames of each cause alone: a recursion error has a thousand.
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
    # Ends: each is met once, and no more than so many.
    while waiting and len(met) <= most:
        link = waiting.pop()
        if id(link) not in met:
            met.add(id(link))
            parts = link.exceptions[: most + 1] if isinstance(link, BaseExceptionGroup) else ()
            waiting += [near for near in (link.__cause__, link.__context__, *parts) if near is not None]
    return len(met) > most


def cut(text: str, characters_max: int) -> str:
    """Keep the beginning and, since a traceback tells most at its end, the longer end."""
    if len(text) > characters_max:
        head = characters_max // 4
        left_out = len(text) - characters_max
        text = f"{text[:head]}\n… {left_out} characters left out …\n{text[head - characters_max :]}"
    return clean(text)


def clean(text: str) -> str:
    """Replace what PostgreSQL's text cannot hold: NUL and lone surrogates."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
