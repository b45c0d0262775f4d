"""Fixtures for pytest, on a PostgreSQL of their own: one server a pytest process, a fresh database a test.

    # conftest.py
    pytest_plugins = ["orchestrator.testing.fixtures"]

The tables are made once, in a template, which each test gets a copy of: some ten milliseconds a test. With pytest-xdist
each of its processes has a server, and nothing to share or to agree on. To use a server that runs already, override
`orchestrator_server_url` with the URL of a role that may create databases.
"""

from collections.abc import Iterator

import pytest

from orchestrator.testing import database
from orchestrator.testing.clock import Clock, frozen_clock


@pytest.fixture(scope="session")
def orchestrator_server_url() -> Iterator[str]:
    """The URL of a server that ends with the session: the embedded one, of the extra `embedded`."""
    with database.server() as url:
        yield url


@pytest.fixture(scope="session")
def orchestrator_template(orchestrator_server_url: str) -> Iterator[str]:
    """The name of a database with the tables in it, to be copied."""
    with database.template(orchestrator_server_url) as name:
        yield name


@pytest.fixture
def orchestrator_database_url(orchestrator_server_url: str, orchestrator_template: str) -> Iterator[str]:
    """The URL of a fresh database with the tables in it, dropped afterwards."""
    with database.copy(orchestrator_server_url, orchestrator_template) as url:
        yield url


@pytest.fixture
def orchestrator_clock(orchestrator_database_url: str) -> Iterator[Clock]:
    """The clock of the test's database: it stands still, and moves when it is told to."""
    with frozen_clock(orchestrator_database_url) as clock:
        yield clock
