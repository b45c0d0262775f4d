"""An application on a database in which the feature has its objects."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from orchestrator import Orchestrator
from tests.feature.lane_limits import install

LANES = Path(__file__).with_name("lanes.sql")
LANE = 7
OTHER = 8
LIMIT = 2


@pytest.fixture
def limited(connection: psycopg.Connection) -> psycopg.Connection:
    """The test's session, on a database with two limits."""
    install(connection, {LANE: LIMIT, OTHER: LIMIT})
    connection.execute(LANES.read_bytes())
    return connection


@pytest.fixture
def app(database_url: str) -> Iterator[Orchestrator]:
    """An application that polls so seldom that no poll helps a test."""
    application = Orchestrator(database_url, poll_seconds=3600.0, heartbeat_seconds=0.5, grace_seconds=10.0)
    yield application
    application.close()
