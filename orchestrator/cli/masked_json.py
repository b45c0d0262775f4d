"""JSON from a task, for display: the values of keys that look like secrets are masked.

The text that jsonb prints is parsed and written again. Text that PostgreSQL stores and Python cannot parse cannot be
searched for secrets, and is not shown. --unmasked shows it unchanged.
"""

import json as writer
import re
from typing import Any

from orchestrator import observe
from orchestrator.errors import PayloadRefused
from orchestrator.task import payload
from orchestrator.task.payload import DEPTH_MAX

# Characters that are not printable ASCII. In JSON they occur only inside strings.
SPECIAL = re.compile(r"[^\x20-\x7e]")


def value(text: str, *, unmasked: bool) -> Any:
    """Return the parsed value, its secrets masked."""
    try:
        found = payload.decode_any(text, root="value")
    except PayloadRefused as error:
        return {"unreadable": str(error)}
    # A log line shows a few levels; here all levels that a payload may have are shown.
    return found if unmasked else observe.masked(found, depth=-DEPTH_MAX)


def pretty(text: str, *, unmasked: bool) -> str:
    """Return the value as indented JSON."""
    try:
        return writer.dumps(value(text, unmasked=unmasked), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text if unmasked else "unreadable; --unmasked shows it as it stands"


def json(found: Any) -> str:
    """Return a value as JSON, in ASCII: an untrusted control sequence stays an escape."""
    return writer.dumps(found)


def ascii_json(text: str) -> str:
    """Return JSON text unchanged but for escapes, in ASCII. Every digit of a number is kept."""
    return SPECIAL.sub(lambda found: writer.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), text)


def hidden_text(text: str) -> str:
    """Return a text in which values that follow the name of a secret are masked."""
    return observe.masked_text(text)
