"""A task to enqueue, and a table of the caller's own to write beside it."""

import inspect
from typing import Any

import psycopg
import pytest

from orchestrator import Orchestrator
from tests.conftest import coroutine_of
from tests.producers.every_holder import ALL_KINDS, OWN_TABLE, run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine as its kind of connection needs it: on a loop, or without."""
    kind = pyfuncitem.funcargs.get("kind")
    if kind not in ALL_KINDS or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    run(kind, coroutine_of(pyfuncitem))
    return True


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
