"""A handler that blocks the event loop: its worker stays alive, reports it, and gives the other tasks back."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from orchestrator import Orchestrator
from orchestrator.notify.idle_wait import IdleWait
from tests.patience import eventually
from tests.proxy import Proxy
from tests.worker.processes import Process, worker
from tests.worker.running import status, statuses, task, until, value, working

DOOR = 4712
BEFORE, BEHIND = 1500, 1500
LOUD = ("-c", "10", "--log-level", "debug")


@contextmanager
def shut(url: str) -> Iterator[psycopg.Connection]:
    """Make the handlers that block wait until the door opens."""
    with psycopg.connect(url, autocommit=True) as keeper:
        keeper.execute("SELECT pg_advisory_lock(%s)", [DOOR])
        yield keeper


def open_it(keeper: psycopg.Connection) -> None:
    keeper.execute("SELECT pg_advisory_unlock_all()")


def enqueue(
    connection: psycopg.Connection, kind: str, before: int, behind: int, *, after: float = 0.0
) -> int:
    """Enqueue a handler that blocks, with others before and behind it in the order. Return its id."""
    work = "INSERT INTO orchestrator.tasks (type) SELECT %s FROM generate_series(1, %s)"
    with connection.transaction():
        connection.execute(work, [kind, before])
        task_id = value(
            connection,
            "INSERT INTO orchestrator.tasks (type, payload)"
            " VALUES ('shop.block', jsonb_build_object('door', %s::int, 'after', %s::float8)) RETURNING id",
            DOOR,
            after,
        )
        connection.execute(work, [kind, behind])
    return int(task_id)


def connection_url(connection: psycopg.Connection) -> str:
    return connection.info.dsn


def beat(connection: psycopg.Connection, process: Process) -> object:
    return value(connection, "SELECT beat_at FROM orchestrator.workers WHERE pid = %s", process.pid)


def unbegun(connection: psycopg.Connection, blocked: Process) -> set[int]:
    """Return the tasks that are not completed and that the blocked worker has not begun. Its running tasks and
    unwritten outcomes must wait for its loop."""
    rows = connection.execute("SELECT id FROM orchestrator.tasks WHERE status <> 'completed'").fetchall()
    begun = {line["task_id"] for line in blocked.events() if line["event"] == "task started"}
    return {int(task_id) for (task_id,) in rows} - begun


@pytest.mark.parametrize("before", [0, BEFORE], ids=["at once", "at full speed"])
def test_a_blocked_loop_keeps_no_task_waiting(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, before: int
) -> None:
    """The tasks claimed ahead are given back, uncharged, and run elsewhere while the loop is blocked. The worker
    still beats, its row and its log report the block, and it goes on when the loop is free."""
    with shut(database_url) as keeper, worker(database_url, tmp_path / "blocked.log", *LOUD) as blocked:
        blocking = enqueue(connection, "shop.work", before, BEHIND)
        see_it_blocked(connection, keeper, blocked, tmp_path, blocking)

        after = enqueue(connection, "shop.work", 1, 0) - 1
        eventually(lambda: status(connection, after) == "completed", "it serves again")

    lines = [line for line in blocked.events() if line["event"] in ("loop blocked", "loop free")]
    assert ["shop.block"] == [
        kind for line in lines for kind in line.get("running", ()) if kind != "shop.work"
    ]
    # On a busy machine the loop may have been blocked before, too.
    assert max(line["blocked_seconds"] for line in lines if line["event"] == "loop free") > 1.0


def test_a_claim_whose_answer_reaches_a_blocked_loop_goes_back(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The database has assigned the tasks, and the worker does not read the answer. With a slow network that is the
    usual case."""
    with (
        shut(database_url) as keeper,
        Proxy(database_url) as proxy,
        worker(proxy.url, tmp_path / "blocked.log", *LOUD) as blocked,
    ):
        eventually(lambda: blocked.has_logged("worker started"), "it serves")
        proxy.delay(0.025)
        blocking = enqueue(connection, "shop.nap", 0, 300, after=0.3)
        see_it_blocked(connection, keeper, blocked, tmp_path, blocking)


def see_it_blocked(
    connection: psycopg.Connection,
    keeper: psycopg.Connection,
    blocked: Process,
    directory: Path,
    blocking: int,
) -> None:
    """Check that others run the tasks behind the blocking one meanwhile; then open the door."""
    eventually(lambda: blocked.has_logged("loop blocked"), "it says so")
    last = beat(connection, blocked)
    with worker(connection_url(connection), directory / "other.log", "-c", "10"):
        eventually(lambda: not unbegun(connection, blocked), "others run what is behind it")
        eventually(lambda: beat(connection, blocked) != last, "it beats")
        assert ("running", False) == (status(connection, blocking), blocked.has_logged("loop free"))
        open_it(keeper)
        eventually(lambda: statuses(connection).keys() == {"completed"}, "it goes on")
    eventually(lambda: blocked.has_logged("loop free"), "it says so")
    assert (1, 0) == (task(connection, blocking).attempt, task(connection, blocking).losses)
    assert 1 == value(connection, "SELECT max(attempt) FROM orchestrator.tasks")
    assert 0 == value(connection, "SELECT count(*) FROM orchestrator.attempts")
    assert not blocked.has_logged("stale outcome")


async def test_slots_are_used_again_while_the_handler_that_blocked_goes_on(
    app: Orchestrator, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks that were given back run as soon as the loop is free. No ring tells of them: the row asks for none."""
    monkeypatch.setattr(IdleWait, "hears", lambda _self, _hears: None)
    done = asyncio.Event()

    @app.task(name="block")
    async def block() -> None:
        eventually(lambda: {"running": 1, "pending": 3} == statuses(connection), "they are given back")
        await done.wait()

    app.task(name="quick")(lambda: None)
    connection.execute(
        "INSERT INTO orchestrator.tasks (type) VALUES ('block'), ('quick'), ('quick'), ('quick')"
    )
    async with working(app, concurrency=4):
        await until(lambda: {"running": 1, "completed": 3} == statuses(connection), "they run")
        done.set()
