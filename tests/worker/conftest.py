"""An application on the test's own database."""

from collections.abc import Iterator

import pytest

from orchestrator import Orchestrator


@pytest.fixture
def app(database_url: str) -> Iterator[Orchestrator]:
    """An application without tasks, quick to notice things, its connections closed afterwards."""
    application = Orchestrator(database_url, poll_seconds=1.0, heartbeat_seconds=0.5, grace_seconds=10.0)
    yield application
    application.close()
