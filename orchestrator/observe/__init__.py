"""Turn events into lines. The only room that knows structlog; stations emit, they do not log."""

from orchestrator.observe.log import follow

__all__ = ["follow"]
