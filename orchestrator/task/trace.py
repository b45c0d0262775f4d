"""The trace that a task was enqueued in: `{"traceparent": "00-<trace>-<span>-<flags>"}`, as W3C defines it.

The column may hold any value. So this module searches it as text, and returns only a valid trace id.
"""

import re

TRACE_ID = re.compile(r'"traceparent": ?"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-')


def id_of(trace_context: str | None) -> str | None:
    """Return the id of the trace, or None if there is none."""
    if trace_context is None:
        return None
    found = TRACE_ID.search(trace_context)
    return found[1] if found else None
