"""Access to the internals of an application: its producer and its database. No other module of testing has it."""

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
    """Let an application use this database within the block: for enqueues, handles, run_tasks and workers."""
    producer = producer_of(app)
    with mock.patch.dict(app._settings, database_url=url), mock.patch.dict(vars(producer)):
        # If these exist, they were made for the previous database.
        for name in ("config", "pools"):
            vars(producer).pop(name, None)
        try:
            yield
        finally:
            producer.close()
            if "pools" in vars(producer):
                producer.pools.abandon()


def producer_of(what: Orchestrator | TaskFunction[..., Any] | Sender) -> Producer:
    """Return the producer of an application, of a task or of a sender."""
    return what.producer if isinstance(what, Sender) else what._producer


def sender_of(task: TaskFunction[..., Any] | Sender) -> Sender:
    """Return the sender of a task, or the sender itself with its connection."""
    return task if isinstance(task, Sender) else task.using()


def info_of(where: Orchestrator | str) -> str:
    """Return the connection string of an application's database, or of a URL."""
    url = where if isinstance(where, str) else where.config.database_url
    return connect.conninfo(url, application_name=APPLICATION_NAME)
