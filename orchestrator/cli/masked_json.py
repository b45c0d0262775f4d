"""JSON from a task, as a person may see it: the values of keys that look like secrets are masked.

The text that jsonb prints is read and written again. What Python refuses to read (PostgreSQL stores it) cannot be
looked through for secrets, and is not shown; --unmasked shows it as it stands.
"""

import json as writer
import re
from typing import Any

from orchestrator import observe
from orchestrator.errors import PayloadRefused
from orchestrator.task import payload
from orchestrator.task.payload import DEPTH_MAX

# Not ASCII, or not printed: in JSON it can only stand inside of strings.
SPECIAL = re.compile(r"[^\x20-\x7e]")


def value(text: str, *, unmasked: bool) -> Any:
    """Return what the text holds, its secrets masked."""
    try:
        found = payload.decode_any(text, root="value")
    except PayloadRefused as error:
        return {"unreadable": str(error)}
    # A line of a log shows a few levels; here all are wanted that a payload may have.
    return found if unmasked else observe.masked(found, depth=-DEPTH_MAX)


def pretty(text: str, *, unmasked: bool) -> str:
    """Return it for a person to read."""
    try:
        return writer.dumps(value(text, unmasked=unmasked), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text if unmasked else "unreadable; --unmasked shows it as it stands"


def json(found: Any) -> str:
    """Return a value as JSON, in ASCII: a control sequence of a stranger's stays an escape."""
    return writer.dumps(found)


def ascii_json(text: str) -> str:
    """Return JSON as it stands, to the last digit, in ASCII."""
    return SPECIAL.sub(lambda found: writer.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), text)


def hidden_text(text: str) -> str:
    """Return a text with what follows the name of a secret masked."""
    return observe.masked_text(text)
