"""Whether to trace: checked when a task is enqueued, when a worker starts, and in the child process of a handler.

A process that traces has loaded OpenTelemetry and set up a tracer provider, by code or by `opentelemetry-instrument`.
So this module looks for it among the imported modules, and does not import it in other processes. If only its API is
loaded, as some frameworks do, nothing is traced either: its spans would be empty.
"""

import importlib
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

API = "opentelemetry.trace"


def tracing() -> Any:
    """Return the maker of spans (spans.py) if this process has set up tracing; else None."""
    api = sys.modules.get(API)
    if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    # Imported only in a process that traces, because spans.py imports OpenTelemetry.
    found = importlib.import_module("orchestrator.observe.spans").SPANS
    return found if found.works else None


def continued(trace_context: str | None) -> AbstractContextManager[None]:
    """Continue a trace for a block: in a handler's child process, whose span the worker has made."""
    found = tracing()
    return nullcontext() if found is None else found.continued(trace_context)
