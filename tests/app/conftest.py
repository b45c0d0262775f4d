"""An application on the test's own database, and a way to make that database unreachable."""

from collections.abc import Iterator

import psycopg
import pytest

from orchestrator import Orchestrator
from tests.worker.outage import Outage, possible


@pytest.fixture
def app(database_url: str) -> Iterator[Orchestrator]:
    """An application without tasks; its connections are closed afterwards."""
    application = Orchestrator(database_url)
    yield application
    application.close()


@pytest.fixture
def outage(administrator: psycopg.Connection, connection: psycopg.Connection) -> Iterator[Outage]:
    """An outage of the test's database that has not begun yet; it ends with the test."""
    with possible(administrator, connection) as outage:
        yield outage
