"""A worker claims nothing before its row names its beacon. Without one, the leader would notice only after 30 s that
its first task has killed it."""

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from orchestrator import claim, events
from orchestrator.notify import idle_wait, listen
from orchestrator.postgres.session import Connection
from orchestrator.worker import features
from tests.conftest import MakeApp
from tests.feature.conftest import LANE, LANES, LIMIT
from tests.feature.lane_limits import WITHOUT_NET, install
from tests.patience import PATIENCE_SECONDS
from tests.worker.running import DEAD, recorded, run_until_empty, status, statuses, until, value, working

ROWS = "SELECT count(*) FROM orchestrator.workers"
CLAIMS = "SELECT array_agg(has_beacon ORDER BY claim) FROM claims"


@pytest.fixture(autouse=True)
def claims(connection: psycopg.Connection) -> None:
    """Note of each claim of a task whether the row of its worker names a beacon then."""
    connection.execute("CREATE TABLE claims (claim bigserial, has_beacon boolean)")
    connection.execute(
        "CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.claims (has_beacon)"
        " SELECT w.beacon IS NOT NULL FROM orchestrator.workers AS w WHERE w.id = NEW.worker_id;"
        " RETURN NULL; END $$"
    )
    connection.execute(
        "CREATE TRIGGER note_claim AFTER UPDATE ON orchestrator.tasks_live FOR EACH ROW"
        " WHEN (OLD.status = 'pending' AND NEW.status = 'claimed') EXECUTE FUNCTION note_claim()"
    )


@pytest.fixture
def slow_beacon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beacon that comes late enough for a worker that does not wait to claim without it."""
    take = listen.Listener._take_beacon

    async def late(listener: listen.Listener, connection: Connection) -> None:
        await asyncio.sleep(0.3)
        await take(listener, connection)

    monkeypatch.setattr(listen.Listener, "_take_beacon", late)


@pytest.mark.usefixtures("slow_beacon")
def test_a_new_worker_claims_with_its_beacon_in_its_row(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task was there before the worker."""
    monkeypatch.setattr(idle_wait, "FIRST_BEACON_SECONDS", PATIENCE_SECONDS)
    app = make_app()

    @app.task(name="work")
    async def work() -> None: ...

    work.enqueue()
    run_until_empty(app)

    assert ({"completed": 1}, [True]) == (statuses(connection), value(connection, CLAIMS))


@pytest.mark.usefixtures("slow_beacon")
async def test_a_source_claims_with_the_workers_beacon_in_its_row(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claims of a feature wait as the plain ones do."""
    monkeypatch.setattr(idle_wait, "FIRST_BEACON_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(features, "FEATURES", [WITHOUT_NET])
    install(connection, {LANE: LIMIT})
    connection.execute(LANES.read_bytes())
    app = make_app()

    @app.task(name="work")
    async def work() -> None: ...

    work.using(metadata={"lane": LANE}).enqueue()
    async with working(app):
        await until(lambda: statuses(connection) == {"completed": 1}, "it has run")

    assert [True] == value(connection, CLAIMS)


async def test_a_worker_that_was_declared_dead_claims_with_its_new_beacon(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first beacon belonged to its first id."""
    monkeypatch.setattr(idle_wait, "FIRST_BEACON_SECONDS", PATIENCE_SECONDS)
    app = make_app(poll_seconds=0.1, heartbeat_seconds=0.1)

    @app.task(name="work")
    async def work() -> None: ...

    with recorded(events.WorkerDeclaredDead) as died:
        async with working(app):
            first = await work.aenqueue()
            await until(lambda: status(connection, first.id) == "completed", "it serves")
            with connection.transaction():
                connection.execute(DEAD)
                second = value(connection, "SELECT orchestrator.enqueue('work')")
            await until(lambda: status(connection, second) == "completed", "it serves again")

    assert 1 == len(died)
    assert [True, True] == value(connection, CLAIMS)


def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the worker's listener connect, but no notification reach it."""
    monkeypatch.setattr(listen, "LISTEN_WORKERS", b"SELECT 1")


def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the worker's listener fail each time, so that no event of it wakes the worker."""

    async def fail(_connection: object) -> None:
        raise psycopg.errors.TooManyConnections("no connection is left")

    monkeypatch.setattr(listen, "listen", fail)


@pytest.mark.parametrize("without_notifications", [deaf, refused])
def test_a_worker_that_can_hold_no_beacon_does_not_wait_for_ever(
    make_app: MakeApp,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    without_notifications: Callable[[pytest.MonkeyPatch], None],
) -> None:
    """As behind PgBouncer."""
    without_notifications(monkeypatch)
    app = make_app()

    @app.task(name="work")
    async def work() -> None: ...

    work.enqueue()
    run_until_empty(app)

    assert ({"completed": 1}, [False]) == (statuses(connection), value(connection, CLAIMS))


async def test_a_worker_that_is_declared_dead_while_it_sweeps_waits_for_its_new_beacon(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim after the sweep would be under the new id, whose row names no beacon yet."""
    monkeypatch.setattr(idle_wait, "FIRST_BEACON_SECONDS", PATIENCE_SECONDS)
    app = make_app(poll_seconds=0.1, heartbeat_seconds=0.1)
    swept, take_beacon, rest = claim.sweep, listen.Listener._take_beacon, idle_wait.IdleWait.rest
    may_take = asyncio.Event()
    may_take.set()

    @app.task(name="work")
    async def work() -> None: ...

    async def slow_sweep(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(claim, "sweep", swept)
        may_take.clear()
        connection.execute(DEAD)
        await until(lambda: died and value(connection, ROWS) == 2, "its new row is there")
        await work.aenqueue()
        monkeypatch.setattr(idle_wait.IdleWait, "rest", rest_without_a_claim)
        return await swept(*given, **options)

    async def rest_without_a_claim(idle: idle_wait.IdleWait) -> None:
        may_take.set()
        await rest(idle)

    async def late_beacon(listener: listen.Listener, *given: Any) -> None:
        await may_take.wait()
        await take_beacon(listener, *given)

    monkeypatch.setattr(listen.Listener, "_take_beacon", late_beacon)
    with recorded(events.WorkerDeclaredDead) as died:
        async with working(app):
            first = await work.aenqueue()
            await until(lambda: status(connection, first.id) == "completed", "it serves")
            monkeypatch.setattr(claim, "sweep", slow_sweep)
            await until(lambda: statuses(connection) == {"completed": 2}, "it serves again")

    assert [True, True] == value(connection, CLAIMS)
