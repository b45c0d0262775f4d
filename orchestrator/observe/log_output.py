"""Where lines go, and what they look like.

    structlog is configured            as that says; it is the user's
    logging is configured: a handler   through `logging`, as records of the logger "orchestrator", the fields in the
    on the root logger or on           message and as the attribute `orchestrator`; its levels and handlers decide
    "orchestrator"
    neither                            to standard error: JSON, one object a line; in colour at a terminal

Only the command line configures structlog, and only where nobody has. In every case the secrets are masked first.
"""

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog

from orchestrator.observe.masking import masked_fields, masked_text
from orchestrator.observe.printable import printable

NAME = "orchestrator"
Line = MutableMapping[str, Any]
# A traceback has lines.
MULTI_LINE = ("exception", "stack")


def logger(**fields: Any) -> Any:
    """Return a logger that says these with each line, as the user's own configuration has it, secrets masked."""
    processors = [mask, *structlog.get_config()["processors"]]
    return structlog.wrap_logger(None, processors=processors, logger_factory_args=(NAME,)).bind(**fields)


def configure() -> None:
    """Decide how lines are written, unless the user has."""
    if structlog.is_configured():
        return
    if logging_is_configured():
        structlog.configure(
            processors=[structlog.stdlib.filter_by_level, record],
            logger_factory=structlog.stdlib.LoggerFactory(),
        )
        return
    terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # As text, here: the renderer for terminals would print each frame's variables, payloads and passwords too.
            structlog.processors.format_exc_info,
            mask_exception,
            *([harmless, console()] if terminal else [structlog.processors.JSONRenderer()]),
        ],
        # Writes a line and its end at once; print() writes them apart where Python is unbuffered (as in our image), and
        # the lines of several processes would mix.
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )


def logging_is_configured() -> bool:
    """Tell whether a record of ours would reach a handler that somebody has set; libraries set NullHandler."""
    at: logging.Logger | None = logging.getLogger(NAME)
    while at is not None:  # ends: at the root
        if any(not isinstance(handler, logging.NullHandler) for handler in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return False


def mask(_logger: object, _method: str, line: Line) -> Line:
    """Mask what looks secret."""
    return masked_fields(line)


def mask_exception(_logger: object, _method: str, line: Line) -> Line:
    """Mask the passwords in a traceback."""
    if isinstance(text := line.get("exception"), str):
        line["exception"] = masked_text(text)
    return line


def record(_logger: object, _method: str, line: Line) -> tuple[tuple[str], dict[str, Any]]:
    """Make the arguments of `logging`'s methods: a message for whoever prints no more, and the fields beside it."""
    event = str(line.pop("event", ""))
    known = {name: line.pop(name) for name in ("exc_info", "stack_info") if name in line}
    said = " ".join(f"{name}={shown(value)}" for name, value in line.items())
    return (printable(f"{event} {said}".rstrip()),), {**known, "extra": {NAME: dict(line)}}


def shown(value: Any) -> str:
    """Write a value so that one sees where it ends."""
    text = str(value)
    return text if text and text.isprintable() and not set(text) & {" ", '"', "="} else repr(text)


def console() -> Callable[..., Any]:
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


def harmless(_logger: object, _method: str, line: Line) -> Line:
    """Escape what a terminal would obey. JSON does so by itself."""
    return {
        printable(name): printable(value, keeping="\n" if name in MULTI_LINE else "")
        if isinstance(value, str)
        else value
        for name, value in line.items()
    }
