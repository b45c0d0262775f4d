"""An application on the test's own database, and a task to enqueue."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from orchestrator import Orchestrator
from tests.producers.holding import OWN_TABLE


@pytest.fixture
def app(database_url: str) -> Iterator[Orchestrator]:
    """An application without tasks; its connections are closed afterwards."""
    application = Orchestrator(database_url)
    yield application
    application.close()


@pytest.fixture
def note(app: Orchestrator) -> Any:
    """A task that takes a number and a text."""

    @app.task(name="note")
    def note(number: int = 0, text: str = "") -> int:
        return number

    return note


@pytest.fixture
def own_table(connection: psycopg.Connection) -> str:
    """A table of the caller's own, written together with the task; its name."""
    connection.execute(OWN_TABLE)
    return "public.own"
