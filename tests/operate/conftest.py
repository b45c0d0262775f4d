"""The clock of the test's database, and an application whose workers notice changes fast."""

from collections.abc import Iterator

import psycopg
import pytest

from orchestrator import Orchestrator
from tests.clock import Clock


@pytest.fixture
def clock(connection: psycopg.Connection) -> Clock:
    """The database's clock, which stands still."""
    return Clock(connection)


@pytest.fixture
def app(database_url: str) -> Iterator[Orchestrator]:
    """An application without tasks, its connections closed afterwards."""
    application = Orchestrator(database_url, poll_seconds=0.2, heartbeat_seconds=0.2, concurrency=2)
    yield application
    application.close()
