"""Logging, structlog and the subscribers of events as they were before a block: a worker command sets them for good."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from orchestrator.events import bus


@contextmanager
def restored() -> Iterator[None]:
    """Restore them after the block."""
    root, ours = logging.getLogger(), logging.getLogger("orchestrator")
    kept = [(logger, logger.handlers[:], logger.level) for logger in (root, ours)]
    configured = structlog.get_config() if structlog.is_configured() else None
    subscribers = bus._subscribers[:]
    try:
        yield
    finally:
        for logger, handlers, level in kept:
            logger.handlers[:] = handlers
            logger.setLevel(level)
        if configured is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**configured)
        bus._subscribers[:] = subscribers
        bus._forget_routes()
