"""A page runs in our own process; changes that it makes for its own process are undone."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once

from tests import observers


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logging, structlog, OpenTelemetry's provider, and who subscribed to events."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    with observers.restored():
        yield
