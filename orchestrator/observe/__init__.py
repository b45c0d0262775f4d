"""Turn events into lines and numbers. The only room that knows structlog and prometheus-client; stations emit, they
neither log nor count.
"""

from orchestrator.observe.log import follow, logger
from orchestrator.observe.masking import masked, masked_text
from orchestrator.observe.metrics import count
from orchestrator.observe.printable import printable

__all__ = ["count", "follow", "logger", "masked", "masked_text", "printable"]
