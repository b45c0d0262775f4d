"""A page runs in our own process; changes that it makes for its own process are undone."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.util._once import Once

from orchestrator.events import bus


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logging, structlog, OpenTelemetry's provider, and who subscribed to events."""
    root, ours = logging.getLogger(), logging.getLogger("orchestrator")
    kept = [(logger, logger.handlers[:], logger.level) for logger in (root, ours)]
    configured = structlog.get_config() if structlog.is_configured() else None
    subscribers = bus._subscribers[:]
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    yield
    for logger, handlers, level in kept:
        logger.handlers[:] = handlers
        logger.setLevel(level)
    if configured is None:
        structlog.reset_defaults()
    else:
        structlog.configure(**configured)
    bus._subscribers[:] = subscribers
    bus._forget_routes()
