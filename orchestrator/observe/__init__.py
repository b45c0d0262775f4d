"""Turn events into lines and numbers. The only room that knows structlog and prometheus-client; stations emit, they
neither log nor count.
"""

from orchestrator.observe.log import follow, logger
from orchestrator.observe.metrics import count

__all__ = ["count", "follow", "logger"]
