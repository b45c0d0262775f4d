"""Turn events into lines and numbers, and those into statistics in the database. The only room that knows structlog and
prometheus-client; stations emit, they neither log nor count.
"""

from orchestrator.observe.log import follow, logger
from orchestrator.observe.metrics import count
from orchestrator.observe.printable import printable
from orchestrator.observe.statistics import Statistics

__all__ = ["Statistics", "count", "follow", "logger", "printable"]
