"""An application whose children trace: its module sets OpenTelemetry up when it is imported."""

import os

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from orchestrator import Orchestrator

if os.environ.get("SHOP_TRACES"):
    trace.set_tracer_provider(TracerProvider())

app = Orchestrator()


@app.task(name="traced.child", executor="process")
def child() -> dict[str, str]:
    """Return the trace in which this runs."""
    return now()


def now() -> dict[str, str]:
    """Return the current trace and span."""
    here = trace.get_current_span().get_span_context()
    return {"trace": f"{here.trace_id:032x}", "span": f"{here.span_id:016x}"}
