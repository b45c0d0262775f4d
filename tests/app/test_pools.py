"""Enqueueing on the application's own pool, which threads and coroutines share, and the errors when the database
cannot be reached or refuses the login."""

import asyncio
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from orchestrator import DatabaseUnavailable, Orchestrator, OrchestratorError
from orchestrator.postgres import embedded_folder
from tests import servers
from tests.worker.outage import Outage
from tests.worker.running import value

PASSWORD = "hunter2-hunter2"  # noqa: S105 - of a server that lives for one test


def producers(connection: psycopg.Connection) -> int:
    """Count the sessions of our pools."""
    return int(
        value(
            connection,
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = 'orchestrator producer' AND datname = current_database()",
        )
    )


def test_closing_ends_every_session(app: Orchestrator, connection: psycopg.Connection) -> None:
    """A closed pool opens again when it is needed."""
    note = app.task(name="note")(lambda: None)
    before = set(threading.enumerate())

    for _ in range(2):
        note.enqueue()
        assert 1 == producers(connection)
        app.close()
        deadline = time.monotonic() + 10
        while producers(connection) and time.monotonic() < deadline:
            time.sleep(0.005)
        assert 0 == producers(connection)
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_pool_outlives_an_outage(
    database_url: str, connection: psycopg.Connection, outage: Outage, colour: str
) -> None:
    """During it: an error of ours. After it: the first try succeeds."""
    app = Orchestrator(database_url, pool_timeout_seconds=1.5)
    note = app.task(name="note")(lambda: None)

    async def main() -> list[str]:
        seen = []
        for phase in ("before", "during", "during", "after"):
            if phase == "during":
                outage.begin()
            elif phase == "after":
                outage.end()
            seen.append(f"{phase} {await once()}")
        return seen

    async def once() -> str:
        try:
            return str((await note.aenqueue() if colour == "async" else note.enqueue()).created)
        except OrchestratorError as error:
            return type(error).__name__

    async def closing() -> list[str]:
        try:
            return await main()
        finally:
            await app.aclose()

    found = asyncio.run(closing())
    app.close()

    away = "during DatabaseUnavailable"
    assert ["before True", away, away, "after True"] == found
    assert 2 == value(connection, "SELECT count(*) FROM orchestrator.tasks")


def test_a_server_restart_between_two_tasks_is_not_noticed(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """A session that died while it was idle is replaced, not used."""
    note = app.task(name="note")(lambda: None)
    note.enqueue()
    connection.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE application_name = 'orchestrator producer' AND datname = current_database()"
    )

    assert note.enqueue().created
    assert 2 == value(connection, "SELECT count(*) FROM orchestrator.tasks")


@pytest.fixture(scope="module")
def guarded_server() -> Iterator[str]:
    """The URL of a server that asks jane for her password."""
    with servers.private(embedded_folder.binaries(), rules=servers.ASKING_JANE, migrated=False) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE ROLE jane LOGIN SUPERUSER PASSWORD {}").format(sql.Literal(PASSWORD))
            )
        yield server.url().replace("postgres@", "jane:{}@")


@pytest.mark.parametrize("colour", ["def", "async", "worker"])
@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (lambda url: url.format(f"not-{PASSWORD}"), "password authentication failed for user"),
        (
            lambda url: url.format(PASSWORD).replace("/postgres", "/nowhere"),
            'database "nowhere" does not exist',
        ),
        (lambda url: f"postgresql://jane:{PASSWORD}@127.0.0.1:1/postgres", "127.0.0.1"),
        (lambda url: f"postgresql://jane:{PASSWORD}@nowhere.invalid/postgres", "nowhere.invalid"),
        (lambda url: f"host=nowhere.invalid user=jane password={PASSWORD}", "nowhere.invalid"),
    ],
    ids=["wrong password", "no such database", "no server", "no host", "no host, as key=value"],
)
def test_a_failed_login_shows_the_reason_and_no_password(
    guarded_server: str, where: Callable[[str], str], reason: str, colour: str
) -> None:
    """The address and the error; the password is in no message, no cause, no repr."""
    url = where(guarded_server)
    app = Orchestrator(url, pool_timeout_seconds=0.5, start_wait_seconds=0.5)
    note = app.task(name="note")(lambda: None)

    async def on_loop() -> None:
        try:
            await (note.aenqueue() if colour == "async" else app.arun_worker(until_empty=True))
        finally:
            await app.aclose()

    with pytest.raises(DatabaseUnavailable) as refused:
        note.enqueue() if colour == "def" else asyncio.run(on_loop())
    app.close()

    message = message_of(refused.value)
    assert reason in str(refused.value)
    assert PASSWORD not in message
    assert PASSWORD not in repr(app.config) + str(app.config) + repr(app) + repr(note) + repr(note.using())


def message_of(error: BaseException) -> str:
    """Return everything that a printer of exceptions would show, with the causes, but without the frames' variables."""
    chain: list[Any] = []
    link: BaseException | None = error
    while link is not None:
        chain += [str(link), repr(link), link.args, vars(link)]
        link = link.__cause__ or link.__context__
    return "".join(traceback.format_exception(error)) + repr(chain)
