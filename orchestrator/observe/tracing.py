"""Whether to trace: asked when a task is enqueued, when a worker starts, and in the child process of a handler.

Who traces has loaded OpenTelemetry and set up a tracer provider, by code or by `opentelemetry-instrument`. So it is
found among what the process has imported, and never imported for who does not use it. Where only its API is loaded, as
some frameworks do, nothing is traced either: its spans would be empty.
"""

import importlib
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

API = "opentelemetry.trace"


def tracing() -> Any:
    """Return what makes spans (spans.py), if this process has set that up; else None."""
    api = sys.modules.get(API)
    if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    # Here, and by nobody who does not trace: it imports OpenTelemetry.
    found = importlib.import_module("orchestrator.observe.spans").SPANS
    return found if found.works else None


def continued(trace_context: str | None) -> AbstractContextManager[None]:
    """Go on in a trace for a block: where a handler runs in a process of its own, and its span is the worker's."""
    found = tracing()
    return nullcontext() if found is None else found.continued(trace_context)
