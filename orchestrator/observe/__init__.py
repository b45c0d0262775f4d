"""Turn events into lines and numbers. The only room that knows structlog, prometheus-client and OpenTelemetry; stations
emit, they neither log nor count nor trace.
"""

from orchestrator.observe.log import follow, logger
from orchestrator.observe.metrics import count
from orchestrator.observe.printable import printable
from orchestrator.observe.tracing import continued, tracing

__all__ = ["continued", "count", "follow", "logger", "printable", "tracing"]
