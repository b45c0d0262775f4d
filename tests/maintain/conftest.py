"""What the tests of the duties share: the stations' clock and workers, and an ear for events."""

from collections.abc import Iterator

import pytest

from orchestrator import events
from tests.stations.conftest import clock, hire, worker

__all__ = ["clock", "hire", "worker"]


@pytest.fixture
def heard() -> Iterator[list[events.Event]]:
    """Everything that was emitted during the test."""
    said: list[events.Event] = []
    unsubscribe = events.subscribe(said.append)
    yield said
    unsubscribe()
