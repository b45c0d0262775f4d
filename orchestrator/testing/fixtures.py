"""Fixtures for pytest: one PostgreSQL server per pytest process, a fresh database per test.

    # conftest.py
    pytest_plugins = ["orchestrator.testing.fixtures"]

The tables are made once, in a template. Each test gets a copy of it, in some ten milliseconds. With pytest-xdist each
process has its own server, and shares nothing. To use a running server, override `orchestrator_server_url` with the URL
of a role that may create databases.
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
    """The name of the template database with the tables in it."""
    with database.template(orchestrator_server_url) as name:
        yield name


@pytest.fixture
def orchestrator_database_url(orchestrator_server_url: str, orchestrator_template: str) -> Iterator[str]:
    """The URL of a fresh database with the tables in it, dropped afterwards."""
    with database.copy(orchestrator_server_url, orchestrator_template) as url:
        yield url


@pytest.fixture
def orchestrator_clock(orchestrator_database_url: str) -> Iterator[Clock]:
    """The stopped clock of the test's database, which the test can move."""
    with frozen_clock(orchestrator_database_url) as clock:
        yield clock
