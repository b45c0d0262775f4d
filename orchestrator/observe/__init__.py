"""Turn events into lines and numbers, serve the numbers, and sum them up in the database. The only room that knows
structlog, prometheus-client and OpenTelemetry; stations emit, they neither log nor count nor trace.

    log       which event is a line, at which level        lines      where lines go: the user's way, or ours
    metrics   which event counts for which number          masking    what of a line nobody should read
    catalogue every number there is                        names      how many names a label may have
    numbers   the numbers of this process                  cluster    what the leader has sampled
    vitals    whether a worker is ready                    family     the numbers of several processes
    server    HTTP                                         pages      what is served by it
    tracing   whether to trace                             spans      what is told of a trace
    statistics   what was done, by the minute, in the database
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
