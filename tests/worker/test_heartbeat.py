"""The heartbeat: a message that arrives during one of its statements is not lost."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import LiteralString

import psycopg
import pytest

from orchestrator import Orchestrator, events
from orchestrator.config import Config
from orchestrator.postgres.reconnect import Reconnect
from orchestrator.postgres.thread_connection import ThreadConnection
from orchestrator.task.buckets import EMPTY
from orchestrator.task.tally import Tally
from orchestrator.worker.beat_report import ask
from orchestrator.worker.heartbeat import Heartbeat
from tests.conftest import MakeApp
from tests.patience import PATIENCE_SECONDS, eventually
from tests.worker.holding import holding
from tests.worker.running import recorded, status, until, value, working

CUT_OFF: LiteralString = """
SELECT count(pg_terminate_backend(l.pid))
FROM pg_locks AS l
WHERE NOT l.granted AND l.relation = 'orchestrator.statistics'::regclass
"""


@pytest.fixture
def line(database_url: str) -> ThreadConnection:
    """The heartbeat's connection."""
    return ThreadConnection(database_url, purpose="heartbeat", reach=Reconnect())


@pytest.fixture
def beating(database_url: str, app: Orchestrator, line: ThreadConnection) -> Iterator[Heartbeat]:
    """A heartbeat that beats when the test asks for it, and once an hour."""
    config = Config(
        database_url=database_url, queues=("default",), heartbeat_seconds=3600, dead_after_seconds=10800
    )
    beat = Heartbeat(
        config,
        app.registry,
        line,
        ledger=holding(),
        on_report=lambda _report: None,
        look_seconds=lambda: 3600.0,
    )
    beat.start()
    try:
        yield beat
    finally:
        beat.stop()


def test_the_row_has_the_silence_after_which_the_worker_is_dead(
    beating: Heartbeat, connection: psycopg.Connection
) -> None:
    """The worker's own setting, which every other worker and every view uses."""
    assert [(timedelta(seconds=10800),)] == connection.execute(
        "SELECT dead_after FROM orchestrator.workers"
    ).fetchall()


def test_a_beat_that_is_asked_for_does_not_wait_until_others_may_look_again(
    beating: Heartbeat, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker claims nothing before its beacon is in its row, so this time counts at each start."""
    monkeypatch.setattr("orchestrator.worker.heartbeat.LOOKS_APART_SECONDS", 2 * PATIENCE_SECONDS)
    connection.execute("SELECT pg_advisory_lock(hashtextextended(%s::text, 5))", [beating.worker_id])
    held = "SELECT beacon FROM orchestrator.workers"
    for _ in range(3):
        beating.take_beacon(5)
        eventually(lambda: value(connection, held) == 5, "it is in the row")
        beating.take_beacon(None)
        eventually(lambda: value(connection, held) is None, "it is out")


def test_a_beacon_lost_while_a_beat_waits_is_lost_in_that_beat(
    beating: Heartbeat,
    connection: psycopg.Connection,
    line: ThreadConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the row would show a beacon that does not exist, for a whole beat, and the worker would be declared
    dead."""
    beacon = "SELECT beacon FROM orchestrator.workers"
    connection.execute("SELECT pg_advisory_lock(hashtextextended(%s::text, 5))", [beating.worker_id])
    beating.take_beacon(5)
    eventually(lambda: value(connection, beacon) == 5, "it holds its beacon")
    opened = line.open

    def slow() -> psycopg.Connection:
        monkeypatch.setattr(line, "open", opened)
        beating.take_beacon(None)
        return opened()

    monkeypatch.setattr(line, "open", slow)
    beating.beat()

    eventually(lambda: value(connection, beacon) is None, "it is out", seconds=10)


def test_a_beacon_lost_without_notice_is_lost_in_the_row_by_the_next_look(
    beating: Heartbeat, connection: psycopg.Connection
) -> None:
    """The loop may be blocked, so the listener cannot report it: the heartbeat tries the lock itself."""
    beacon = "SELECT beacon FROM orchestrator.workers"
    connection.execute("SELECT pg_advisory_lock(hashtextextended(%s::text, 5))", [beating.worker_id])
    beating.take_beacon(5)
    eventually(lambda: value(connection, beacon) == 5, "it holds its beacon")
    connection.execute("SELECT pg_advisory_unlock_all()")
    beating.look()

    eventually(lambda: value(connection, beacon) is None, "it is out", seconds=10)


def test_a_connection_that_never_answers_is_replaced(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although its kernel acknowledges all packets: another connection opens, and the beats go on."""
    monkeypatch.setattr("orchestrator.worker.heartbeat.ANSWER_SECONDS", 0.3)
    app = make_app(heartbeat_seconds=0.1)

    @app.task(name="work")
    async def work() -> None: ...

    lost = "SELECT count(*) FROM orchestrator.workers WHERE beat_at > now() - interval '0.2 s'"

    async def main() -> None:
        with recorded(events.ConnectionLost) as seen:
            async with working(app):
                await until(lambda: value(connection, lost), "it beats")
                # A statement without an end is as silent as a frozen server.
                monkeypatch.setattr("orchestrator.worker.heartbeat.ask", silent)
                await until(lambda: [e for e in seen if e.purpose == "heartbeat"], "it is given up")
                monkeypatch.setattr("orchestrator.worker.heartbeat.ask", ask)
                await until(lambda: value(connection, lost), "it beats again")

    def silent(held: psycopg.Connection, *_args: object, **_options: object) -> object:
        held.execute("SET statement_timeout = 0")
        return held.execute("SELECT pg_sleep(600)")

    asyncio.run(main())


def test_a_notification_requested_during_another_is_sent_too(
    beating: Heartbeat, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a listener that came back would wait in vain and report that it is deaf."""
    rings: list[bool] = []

    def interrupted(*args: object, **options: object) -> object:
        rings.append(bool(options["rings"]))
        if len(rings) == 1:
            beating.ring()
        return ask(*args, **options)  # type: ignore[arg-type] # passed on as they came

    monkeypatch.setattr("orchestrator.worker.heartbeat.ask", interrupted)
    beating.ring()

    eventually(lambda: beating.rang_at is not None, "both are sent", seconds=10)
    assert [True, True] == rings


async def test_a_registration_whose_answer_was_lost_is_repeated(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same id, and the worker goes on."""
    app = make_app(poll_seconds=0.1, heartbeat_seconds=0.1)
    registered = Heartbeat._register
    lost: list[object] = []

    def lossy(self: Heartbeat, held: psycopg.Connection, worker_id: object) -> None:
        registered(self, held, worker_id)  # type: ignore[arg-type] # passed on as it came
        if value(connection, "SELECT count(*) FROM orchestrator.workers") > 1 and not lost:
            lost.append(worker_id)
            self._registered = False
            raise psycopg.OperationalError("the connection broke after COMMIT")

    monkeypatch.setattr(Heartbeat, "_register", lossy)

    @app.task(name="work")
    async def work() -> None: ...

    beats = "SELECT count(*) FROM orchestrator.workers WHERE state = 'running' AND beat_at > started_at"

    with recorded(events.WorkerDeclaredDead) as died:
        async with working(app):
            await until(lambda: value(connection, "SELECT count(*) FROM orchestrator.workers"), "it serves")
            connection.execute("UPDATE orchestrator.workers SET state = 'dead'")
            await until(lambda: died and lost, "it registers anew")
            await until(lambda: value(connection, beats), "it beats")
            enqueued = await work.aenqueue()
            await until(lambda: status(connection, enqueued.id) == "completed", "it serves again")
    assert [event.new_worker_id for event in died] == lost


def test_a_stopping_worker_deregisters_even_if_its_statistics_fail(
    beating: Heartbeat, connection: psycopg.Connection, line: ThreadConnection
) -> None:
    """Another session has locked the table, and the connection breaks during the wait."""
    line.open().execute("SET lock_timeout = 0")
    some = Tally("default", "t", {"completed": 1}, EMPTY, EMPTY, EMPTY)
    events.emit(events.OutcomesWritten(beating.worker_id, 0.1, (some,)))
    with recorded(events.DutyFailed) as failed, ThreadPoolExecutor(1) as other, connection.transaction():
        connection.execute("LOCK TABLE orchestrator.statistics")
        stopping = other.submit(beating.stop)
        eventually(lambda: value(connection, CUT_OFF) == 1, "it waits, and is cut off")
        stopping.result(PATIENCE_SECONDS)

    assert "stopped" == value(connection, "SELECT state FROM orchestrator.workers")
    assert ["statistics"] == [event.duty for event in failed]
