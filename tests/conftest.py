"""Databases for tests: one server per pytest process, and a new database for every test that asks for one.

With pytest-xdist each worker has its own server: one more start (0.5 s). They share only stopped clusters, to copy.
"""

import asyncio
import gc
import inspect
import os
import signal
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from orchestrator import Orchestrator, events
from orchestrator.schema import migrate
from tests import servers
from tests.clock import Clock
from tests.worker.outage import Outage, possible
from tests.worker.running import recorded

MakeApp = Callable[..., Orchestrator]

# So much greater than the template's is the OID of its clone.
CLONE = 1_000_000_000


def pytest_configure(config: pytest.Config) -> None:
    """Let what the tests start hear Ctrl-C and the end of a terminal, also when the tests were started to ignore them.

    Who is started in the background ignores the one, who by nohup the other, and so do all whom they start. A handler,
    though, does not outlive exec; and this one does nothing: the tests themselves go on.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    if not hasattr(config, "workerinput"):
        # Set before pytest-xdist starts its processes, so that they share it. A nested pytest makes its own.
        os.environ.pop(servers.CLUSTERS, None)
        servers.cluster_folder()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without collecting garbage, of which there is little: 0.6 of 4.5 s of CPU in each process.

    Then exclude the tests from the collector, until the end: each worker in this process starts a full collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """Include everything again: at its end pytest reports what is garbage and was not closed."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on a loop of its own, and close what its applications have opened there."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None

    async def run() -> None:
        try:
            await coroutine_of(pyfuncitem)
        finally:
            apps: Any = pyfuncitem.funcargs.get("apps", ())
            for app in apps:
                await app.aclose()

    asyncio.run(run())
    return True


def coroutine_of(test: pytest.Function) -> Coroutine[Any, Any, None]:
    """Call a test with its fixtures."""
    coroutine: Coroutine[Any, Any, None] = test.obj(
        **{name: test.funcargs[name] for name in inspect.signature(test.obj).parameters}
    )
    return coroutine


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The URL of the server that `ORCHESTRATOR_TEST_SERVER` picks, as its superuser."""
    with servers.shared_server(servers.choice()) as url:
        yield url


@pytest.fixture(scope="session")
def administrator(server_url: str) -> Iterator[psycopg.Connection]:
    """A superuser's session, to make and drop databases with."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        yield connection


class Template(NamedTuple):
    """A migrated database that tests clone. Nobody can connect to it."""

    name: str
    # Makes a clone the home of its tasks, without a session in it (5 ms of CPU). None before PostgreSQL 18: on 17,
    # under load, DROP DATABASE failed with "trying to drop stats entry already dropped" and ended its session, when
    # databases reused one OID.
    clone_oid: int | None


@pytest.fixture(scope="session")
def template_of_today(administrator: psycopg.Connection, server_url: str) -> Iterator[Callable[[], Template]]:
    """A function that returns the template of this day (UTC): a migration makes the leaves from its day on."""
    made: dict[date, Template] = {}
    with ExitStack() as templates:

        def of_today() -> Template:
            today = datetime.now(UTC).date()
            if today not in made:
                made[today] = templates.enter_context(_template(administrator, server_url))
            return made[today]

        yield of_today


@pytest.fixture(scope="session")
def template_database(template_of_today: Callable[[], Template]) -> str:
    """The name of a template, for tests to which the day does not matter."""
    return template_of_today().name


@pytest.fixture
def database_url(
    administrator: psycopg.Connection, server_url: str, template_of_today: Callable[[], Template]
) -> Iterator[str]:
    """The URL of a fresh, migrated database."""
    template = template_of_today()
    if template.clone_oid is None:
        with migrated_database(administrator, server_url, template.name) as url:
            yield url
    else:
        with _database(administrator, template=template.name, oid=template.clone_oid) as name:
            yield servers.url_of(server_url, name)


@pytest.fixture
def empty_database_url(administrator: psycopg.Connection, server_url: str) -> Iterator[str]:
    """The URL of a fresh database without anything in it."""
    with _database(administrator) as name:
        yield servers.url_of(server_url, name)


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    """A session on the test's database, in autocommit mode."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def clock(connection: psycopg.Connection) -> Clock:
    """The database's clock, which stands still."""
    return Clock(connection)


@pytest.fixture
def outage(administrator: psycopg.Connection, connection: psycopg.Connection) -> Iterator[Outage]:
    """An outage of the test's database that has not begun yet; it is over after the test."""
    with possible(administrator, connection) as outage:
        yield outage


@pytest.fixture
def app_settings() -> dict[str, float]:
    """The settings of `app`: for a folder or a module to override."""
    return {}


@pytest.fixture
def apps() -> Iterator[list[Orchestrator]]:
    """The applications of the test, closed afterwards; at the end of a coroutine also what they opened on its loop."""
    made: list[Orchestrator] = []
    yield made
    for app in made:
        app.close()


@pytest.fixture
def make_app(database_url: str, apps: list[Orchestrator]) -> MakeApp:
    """Make applications without tasks; their connections are closed afterwards."""

    def make(**settings: Any) -> Orchestrator:
        apps.append(Orchestrator(database_url, **settings))
        return apps[-1]

    return make


@pytest.fixture
def app(make_app: MakeApp, app_settings: dict[str, float]) -> Orchestrator:
    """An application without tasks."""
    return make_app(**app_settings)


@pytest.fixture
def heard() -> Iterator[list[events.Event]]:
    """Every event of the test."""
    with recorded() as seen:
        yield seen


@contextmanager
def migrated_database(administrator: psycopg.Connection, server_url: str, template: str) -> Iterator[str]:
    """Give the URL of a fresh, migrated database: for tests that need more than one."""
    with _database(administrator, template=template) as name:
        url = servers.url_of(server_url, name)
        with psycopg.connect(url, autocommit=True) as settler:
            # A clone with another OID is not at home, and nothing would run in it.
            settler.execute("SELECT orchestrator.set_home()")
        yield url


@contextmanager
def _template(administrator: psycopg.Connection, server_url: str) -> Iterator[Template]:
    with _database(administrator) as name:
        url = servers.url_of(server_url, name)
        migrate.upgrade(url)
        with psycopg.connect(url, autocommit=True) as connection:
            _shrink_catalog(connection)
        with psycopg.connect(url) as connection:
            # xmin and the database's OID: what `installation` compares.
            (clone_oid,) = connection.execute(
                "UPDATE orchestrator.home SET place[1] = pg_current_xact_id()::text::oid,"
                " place[2] = place[2]::bigint + %s RETURNING place[2]::bigint",
                [CLONE],
            ).fetchall()[0]
        administrator.execute(
            sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false IS_TEMPLATE true").format(sql.Identifier(name))
        )
        yield Template(name, clone_oid if administrator.info.server_version >= 180_000 else None)
        administrator.execute(sql.SQL("ALTER DATABASE {} IS_TEMPLATE false").format(sql.Identifier(name)))


def _shrink_catalog(connection: psycopg.Connection) -> None:
    """Rewrite the system tables. Without their maps of free space and visibility, a clone has fewer files.

    On PostgreSQL 18: 333 instead of 407.
    """
    tables = connection.execute(
        "SELECT relname FROM pg_class"
        " WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' AND NOT relisshared"
    )
    names = [sql.Identifier(name) for (name,) in tables]
    connection.execute(sql.SQL("VACUUM (FULL) {}").format(sql.SQL(", ").join(names)))


@contextmanager
def _database(
    administrator: psycopg.Connection, *, template: str = "template0", oid: int | None = None
) -> Iterator[str]:
    # Unique also among runs that share a server given by its URL.
    name = f"orchestrator_test_{uuid4().hex}"
    # 6.7 ms, and 8.7 ms with wal_log: medians of 15, migrated database, in memory; on a disk 226 and 316.
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
        sql.Identifier(name), sql.Identifier(template)
    )
    if oid is not None:
        statement += sql.SQL(" OID {}").format(sql.Literal(oid))
    administrator.execute(statement)
    try:
        yield name
    finally:
        _let_sessions_end(administrator, name)
        administrator.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _let_sessions_end(administrator: psycopg.Connection, name: str) -> None:
    # A closed session's backend needs a moment to go. DROP DATABASE that finds it sleeps for 100 ms, and this
    # wait is 0.1 to 1 ms. It ends after 50 looks: who is still there was left open, and FORCE ends it.
    for _ in range(50):
        if not administrator.execute("SELECT FROM pg_stat_activity WHERE datname = %s", [name]).fetchall():
            return
        time.sleep(0.001)
