"""Enqueueing on the application's own pool, which threads and coroutines share, and the errors when the database
cannot be reached or refuses the login."""

import asyncio
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

from orchestrator import DatabaseUnavailable, Orchestrator, OrchestratorError
from orchestrator.postgres import embedded_folder
from tests.servers import Server, temporary_directory
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


def test_sixteen_threads_share_a_pool(database_url: str, connection: psycopg.Connection) -> None:
    """Every task exists once, and there are never more sessions than pool_size."""
    app = Orchestrator(database_url, pool_size=3)
    note = app.task(name="note")(lambda n: None)
    most = []

    def enqueue(n: int) -> int:
        enqueued = note.enqueue(n=n)
        if n % 40 == 0:
            with psycopg.connect(database_url) as mine:
                most.append(producers(mine))
        return enqueued.id

    with ThreadPoolExecutor(16) as threads:
        ids = list(threads.map(enqueue, range(400)))
    app.close()

    assert 400 == len(set(ids)) == value(connection, "SELECT count(DISTINCT payload) FROM orchestrator.tasks")
    assert 1 <= max(most) <= 3


def test_a_hundred_coroutines_share_a_pool(database_url: str, connection: psycopg.Connection) -> None:
    """The same on the loop; and another loop has a pool of its own."""
    app = Orchestrator(database_url, pool_size=3)
    note = app.task(name="note")(lambda n: None)

    async def main() -> int:
        await asyncio.gather(*(note.aenqueue(n=n) for n in range(100)))
        most = producers(connection)
        await app.aclose()
        return most

    assert (True, True) == (1 <= asyncio.run(main()) <= 3, 1 <= asyncio.run(main()) <= 3)
    assert 200 == value(connection, "SELECT count(*) FROM orchestrator.tasks")


def test_closing_ends_every_session(app: Orchestrator, connection: psycopg.Connection) -> None:
    """A closed pool opens again when it is needed."""
    note = app.task(name="note")(lambda: None)

    for _ in range(2):
        note.enqueue()
        assert 1 == producers(connection)
        app.close()
        deadline = time.monotonic() + 10
        while producers(connection) and time.monotonic() < deadline:
            time.sleep(0.005)
        assert 0 == producers(connection)
    assert not [thread.name for thread in threading.enumerate() if "pool" in thread.name.lower()]


def test_more_callers_than_connections_get_an_error(
    database_url: str, connection: psycopg.Connection
) -> None:
    """After pool_timeout_seconds, with the setting to raise."""
    app = Orchestrator(database_url, pool_size=1, pool_timeout_seconds=0.2)
    note = app.task(name="note")(lambda: None)
    note.enqueue()

    with psycopg.connect(database_url) as other, ThreadPoolExecutor(1) as thread:
        other.execute("LOCK TABLE orchestrator.tasks IN ACCESS EXCLUSIVE MODE")
        waiting = thread.submit(note.enqueue)
        deadline = time.monotonic() + 10
        lock = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        while not value(connection, lock) and time.monotonic() < deadline:
            time.sleep(0.005)
        with pytest.raises(DatabaseUnavailable, match=r"more than pool_size \(1\)"):
            note.enqueue()
        other.rollback()
        assert waiting.result(10).created
    app.close()


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_pool_outlives_an_outage(
    database_url: str, connection: psycopg.Connection, outage: Outage, colour: str
) -> None:
    """During it: an error of ours. After it: the first try succeeds."""
    app = Orchestrator(database_url, pool_timeout_seconds=0.3)
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
    with temporary_directory() as directory:
        rules = directory / "pg_hba.conf"
        rules.write_text("host all postgres all trust\nhost all all all scram-sha-256\n")
        rules.chmod(0o644)
        directory.chmod(0o755)
        server = Server(embedded_folder.binaries(), directory / "server", settings={"hba_file": str(rules)})
        try:
            server.start()
            with psycopg.connect(server.url(), autocommit=True) as connection:
                connection.execute(
                    sql.SQL("CREATE ROLE jane LOGIN SUPERUSER PASSWORD {}").format(sql.Literal(PASSWORD))
                )
            yield server.url().replace("postgres@", "jane:{}@")
        finally:
            server.close()


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
    app = Orchestrator(url, pool_timeout_seconds=0.5)
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
