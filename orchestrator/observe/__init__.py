"""Turn events into log lines and metrics, serve the metrics, and add up statistics in the database. Only this package
imports structlog, prometheus-client and OpenTelemetry. The other packages emit events; they do not log, count or trace.

    log                  which event is a line, at which level
    log_output           where lines go: as the application configures it, or to standard error
    masking, printable   hide secrets in lines; escape control characters
    metric_definitions   every metric, and the event that it is counted from
    metrics              count events
    metric_values        the metrics of this process
    label_names          how many names a label may have
    multiprocess         the metrics of several processes
    cluster              the leader's sample of the cluster
    health               whether a worker is ready
    server, pages        HTTP, and the pages that it serves
    monitoring           shows a worker's state while it runs
    tracing, spans       whether to trace, and the spans
    statistics           the outcomes of a worker, by the minute, in the database
"""

from orchestrator.observe.log import follow
from orchestrator.observe.log_output import logger
from orchestrator.observe.masking import masked, masked_text
from orchestrator.observe.metrics import ask, count
from orchestrator.observe.multiprocess import Processes, Snapshot, snapshot
from orchestrator.observe.pages import multiprocess_pages, own_pages
from orchestrator.observe.printable import printable
from orchestrator.observe.server import Server
from orchestrator.observe.statistics import Statistics
from orchestrator.observe.tracing import continued, tracing

__all__ = [
    "Processes",
    "Server",
    "Snapshot",
    "Statistics",
    "ask",
    "continued",
    "count",
    "follow",
    "logger",
    "masked",
    "masked_text",
    "multiprocess_pages",
    "own_pages",
    "printable",
    "snapshot",
    "tracing",
]
