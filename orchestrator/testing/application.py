"""What a test may reach of an application: its producer, and the database it lives in. No other module here does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from orchestrator.app import Orchestrator, Sender, TaskFunction
from orchestrator.app.producer import Producer
from orchestrator.postgres import connect

APPLICATION_NAME = "orchestrator testing"


@contextmanager
def use_database(app: Orchestrator, url: str) -> Iterator[None]:
    """Let an application live in this database for a while: what it enqueues, looks at, drains, and its workers."""
    producer = producer_of(app)
    with mock.patch.dict(app._settings, database_url=url), mock.patch.dict(vars(producer)):
        # Both were made for the database of before, if they were made.
        for name in ("config", "pools"):
            vars(producer).pop(name, None)
        try:
            yield
        finally:
            producer.close()
            if "pools" in vars(producer):
                producer.pools.abandon()


def producer_of(what: Orchestrator | TaskFunction[..., Any] | Sender) -> Producer:
    """Return what enqueues for an application, or for a task of it."""
    return what.producer if isinstance(what, Sender) else what._producer


def sender_of(task: TaskFunction[..., Any] | Sender) -> Sender:
    """Return a task as it is enqueued: with what it holds."""
    return task if isinstance(task, Sender) else task.using()


def info_of(where: Orchestrator | str) -> str:
    """Return the connection string of an application's database, or of a URL."""
    url = where if isinstance(where, str) else where.config.database_url
    return connect.conninfo(url, application_name=APPLICATION_NAME)
