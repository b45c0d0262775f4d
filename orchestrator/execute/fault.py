"""Turn whatever a handler raised into text that PostgreSQL can hold and a person can read.

An exception is user code: its __str__ may raise, or return a hundred megabytes, or NUL. The attempt ends all the
same. What PostgreSQL quotes of a row in an error is left out: who reads of a failure may not be who may read that row.
"""

import traceback
from contextlib import suppress

from orchestrator.errors import ExecutorCrashed, HandlerSignal
from orchestrator.postgres import quoting
from orchestrator.task.outcome import Fault

MESSAGE_CHARACTERS_MAX = 2_000
TRACEBACK_CHARACTERS_MAX = 16_000
# The frames between the loop and the handler tell the reader nothing.
OUR_FRAMES = ("orchestrator.execute.", "asyncio.", "concurrent.futures.")


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
    if isinstance(error, Told):
        return error.fault
    if isinstance(error, ExecutorCrashed):
        return Fault("ExecutorCrashed", message(error))  # ours, and no frame of it tells the reader anything
    quieten(error)
    return Fault(class_name(error), message(error), trace(error))


def of_unfit(kind: str, error: BaseException) -> Fault:
    """Describe why a payload does not fit the handler of a type."""
    return Fault(class_name(error), f"the payload does not fit the handler {kind}: {message(error)}")


def quieten(error: BaseException) -> None:
    """Leave out what a database's error quotes, where it is one, and where it is what this one came of."""
    with suppress(Exception):  # its attributes are user code, too
        quoting.hush_all(error)


def class_name(error: BaseException) -> str:
    """Name the class as a person would grep for it: builtins without their module."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return clean(name)[:200]


def message(said: object) -> str:
    """Return what an exception says, or the reason that a handler gave, which should be text and may be anything."""
    try:
        text = str(said)
    except BaseException as broken:
        # SystemExit too: it would end the worker.
        text = f"(its __str__ raised {type(broken).__name__})"
    return cut(text, MESSAGE_CHARACTERS_MAX)


def trace(error: BaseException) -> str:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith(OUR_FRAMES):
        frames = frames.tb_next
    try:
        # The last frames of each cause alone: a recursion error has a thousand.
        text = "".join(traceback.format_exception(type(error), error, frames, limit=-50))
    except Exception as broken:
        text = f"(its traceback could not be written: {type(broken).__name__})"
    return cut(text, TRACEBACK_CHARACTERS_MAX)


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
