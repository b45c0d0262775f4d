"""A task to enqueue, and a table of the caller's own to write beside it."""

from typing import Any

import psycopg
import pytest

from orchestrator import Orchestrator
from tests.producers.holding import OWN_TABLE


@pytest.fixture
def note(app: Orchestrator) -> Any:
    """A task that takes a number and a text."""

    @app.task(name="note")
    def note(number: int = 0, text: str = "") -> int:
        return number

    return note


@pytest.fixture
def own_table(connection: psycopg.Connection) -> str:
    """A table of the caller's own, to write beside the task; its name."""
    connection.execute(OWN_TABLE)
    return "public.own"
