"""Where log lines go, and their form.

    structlog is configured            as the application configured it
    logging is configured: a handler   through `logging`, as records of the logger "orchestrator", with the fields in
    on the root logger or on           the message and as the attribute `orchestrator`; its levels and handlers apply
    "orchestrator"
    neither                            to standard error: JSON, one object a line; in colour at a terminal

Only the command line configures structlog, and only if the application has not. Secrets are masked first in every case.
"""

import importlib
import logging
import os
import sys
import threading
from collections.abc import MutableMapping
from typing import Any

from orchestrator.observe.masking import masked_fields, masked_text
from orchestrator.observe.printable import printable

NAME = "orchestrator"
# A fork waits for the import: no thread of the child would release the import's own lock.
IMPORTING = threading.RLock()
os.register_at_fork(
    before=IMPORTING.acquire, after_in_parent=IMPORTING.release, after_in_child=IMPORTING.release
)
Line = MutableMapping[str, Any]
# A traceback has lines.
MULTI_LINE = ("exception", "stack")


def logger(**fields: Any) -> Any:
    """Return a logger with these fields in each line, as the application has configured it, with secrets masked."""
    structlog = library()
    processors = [mask, *structlog.get_config()["processors"]]
    return structlog.wrap_logger(None, processors=processors, logger_factory_args=(NAME,)).bind(**fields)


def configure() -> None:
    """Configure how lines are written, unless the application has."""
    structlog = library()
    if structlog.is_configured():
        return
    if logging_is_configured():
        structlog.configure(
            processors=[structlog.stdlib.filter_by_level, record],
            logger_factory=structlog.stdlib.LoggerFactory(),
        )
        return
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Formatted here: the renderer for terminals would also print each frame's variables, with payloads and
            # passwords.
            structlog.processors.format_exc_info,
            mask_exception,
            *([harmless, console()] if sys.stderr.isatty() else [structlog.processors.JSONRenderer()]),
        ],
        # It writes a line and its newline at once. With unbuffered Python (as in our image) print() writes them apart,
        # and the lines of several processes would mix.
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )


def library() -> Any:
    """Return structlog, imported at the first call. Its import takes a fifth of the time of `import orchestrator`."""
    with IMPORTING:
        return importlib.import_module("structlog")


def logging_is_configured() -> bool:
    """Return whether our records would reach a handler. NullHandler does not count: libraries set it."""
    at: logging.Logger | None = logging.getLogger(NAME)
    while at is not None:  # ends: at the root
        if any(not isinstance(handler, logging.NullHandler) for handler in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return False


def mask(_logger: object, _method: str, line: Line) -> Line:
    """Mask the values that look like secrets."""
    return masked_fields(line)


def mask_exception(_logger: object, _method: str, line: Line) -> Line:
    """Mask the passwords in a traceback."""
    if isinstance(text := line.get("exception"), str):
        line["exception"] = masked_text(text)
    return line


def record(_logger: object, _method: str, line: Line) -> tuple[tuple[str], dict[str, Any]]:
    """Return the arguments for `logging`'s methods: a message that holds the fields as text, and the fields."""
    event = str(line.pop("event", ""))
    known = {name: line.pop(name) for name in ("exc_info", "stack_info") if name in line}
    fields = " ".join(f"{name}={shown(value)}" for name, value in line.items())
    return (printable(f"{event} {fields}".rstrip()),), {**known, "extra": {NAME: dict(line)}}


def shown(value: Any) -> str:
    """Return a value as text, quoted if its end would be unclear."""
    text = str(value)
    return text if text and text.isprintable() and not set(text) & {" ", '"', "="} else repr(text)


def console() -> Any:
    """Return the renderer of lines for a terminal."""
    structlog = library()
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


def harmless(_logger: object, _method: str, line: Line) -> Line:
    """Escape control characters for the terminal. JSON output escapes them anyway."""
    return {
        printable(name): printable(value, keeping="\n" if name in MULTI_LINE else "")
        if isinstance(value, str)
        else value
        for name, value in line.items()
    }
