"""Shared by the tests of the duties: the clock and the workers of the stations, and a list of emitted events."""

from collections.abc import Iterator

import pytest

from orchestrator import events
from tests.stations.conftest import clock, hire, worker

__all__ = ["clock", "hire", "worker"]


@pytest.fixture
def heard() -> Iterator[list[events.Event]]:
    """Everything that was emitted during the test."""
    emitted: list[events.Event] = []
    unsubscribe = events.subscribe(emitted.append)
    yield emitted
    unsubscribe()
