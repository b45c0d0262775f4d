"""A handler that blocks the event loop for longer than every timeout: its worker does not count as alive, and ends."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator import Orchestrator, events
from orchestrator.worker.stall import Stall
from tests.forked import REPOSITORY
from tests.patience import PATIENCE_SECONDS, eventually
from tests.worker.holding import holding
from tests.worker.processes import QUICK, surroundings, worker
from tests.worker.running import recorded, status, value, working
from tests.worker.test_blocked_loop import DOOR, open_it, shut

LIVE = "SELECT count(*) FROM orchestrator.live_workers"
# Of a test's own application: quick to notice, and no timeout but those of its tasks.
NOTICING = {"poll_seconds": 0.2, "heartbeat_seconds": 0.2, "dead_after_seconds": 1.0, "term_seconds": 1.0}


def enqueue(connection: psycopg.Connection, kind: str = "shop.block", timeout: str = "1 second") -> int:
    """Enqueue a task that blocks the loop behind the door."""
    payload = {} if kind == "shop.hold" else {"door": DOOR, "after": 0}
    statement = (
        "INSERT INTO orchestrator.tasks (type, payload, timeout) VALUES (%s, %s, %s::interval) RETURNING id"
    )
    return int(value(connection, statement, kind, Jsonb(payload), timeout))


def test_a_hung_worker_ends_its_process(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """It reports why, and is no longer a live worker at once. Until then its row shows that its loop is blocked."""
    with shut(database_url), worker(database_url, tmp_path / "log", "-c", "2") as hung:
        enqueue(connection)
        eventually(
            lambda: value(connection, "SELECT count(blocked_at) FROM orchestrator.workers") == 1,
            "its row says so",
        )
        assert 1 == hung.wait()
        eventually(lambda: value(connection, LIVE) == 0, "it is not among the living")

    (logged,) = [line for line in hung.events() if line["event"] == "worker hung"]
    assert (["shop.block"], True) == (logged["running"], logged["blocked_seconds"] > 2.0)


def test_a_parent_replaces_a_hung_worker(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Another one takes its place, and runs the task."""
    with (
        shut(database_url) as keeper,
        worker(database_url, tmp_path / "log", "-c", "2", "--processes", "2") as parent,
    ):
        task_id = enqueue(connection)
        eventually(lambda: parent.has_logged("child died"), "a child is hung, and ends")
        open_it(keeper)
        eventually(lambda: status(connection, task_id) == "completed", "the task is run")
        eventually(lambda: value(connection, LIVE) == 2, "two workers live again")
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait()


def test_a_task_without_a_timeout_may_block_for_as_long_as_it_likes(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """It is never late."""
    with shut(database_url) as keeper, worker(database_url, tmp_path / "log", "-c", "2") as blocked:
        task_id = enqueue(connection, timeout="0")
        eventually(
            lambda: value(
                connection,
                "SELECT coalesce(max(now() - blocked_at) > '3 s', false) FROM orchestrator.workers",
            ),
            "it is blocked for longer than a worker may be silent",
        )
        open_it(keeper)
        eventually(lambda: status(connection, task_id) == "completed", "it goes on")
        eventually(
            lambda: value(connection, "SELECT count(blocked_at) FROM orchestrator.workers") == 0, "so it says"
        )
        assert not blocked.has_logged("worker hung")


@contextmanager
def beside(app: Orchestrator) -> Iterator[None]:
    """Run a worker in a thread of this process; its loop may be blocked."""
    started = threading.Event()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with working(app):
            stop.append((asyncio.get_running_loop(), asyncio.Event()))
            started.set()
            await stop[0][1].wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(PATIENCE_SECONDS)
        yield
    finally:
        loop, event = stop[0]
        loop.call_soon_threadsafe(event.set)
        thread.join(PATIENCE_SECONDS)


def test_a_hung_worker_of_an_applications_own_process_gives_its_tasks_away(
    database_url: str, connection: psycopg.Connection
) -> None:
    """We may not end that process. The worker stops beating, others run its task, and it begins anew when it can."""
    first, second = Orchestrator(database_url, **NOTICING), Orchestrator(database_url, **NOTICING)
    free, runs = threading.Event(), list[str]()

    def block(where: str) -> None:
        runs.append(where)
        if len(runs) == 1:
            free.wait(PATIENCE_SECONDS)

    for app, where in ((first, "first"), (second, "second")):

        @app.task(name="block", timeout=1)
        async def blocking(where: str = where) -> None:
            block(where)

    with recorded(events.WorkerHung, events.WorkerDeclaredDead, events.WorkerCutOff) as seen, beside(first):
        enqueued = first.enqueue("block", {})
        eventually(lambda: runs, "the first worker's loop is blocked")
        with beside(second):
            eventually(lambda: status(connection, enqueued.id) == "completed", "the second runs it")
            assert ["first", "second"] == runs
            eventually(lambda: value(connection, LIVE) == 1, "one of them lives")
            free.set()
            eventually(lambda: value(connection, LIVE) == 2, "the first one begins anew")
    first.close()
    second.close()

    assert isinstance(seen[0], events.WorkerHung)
    assert len(seen) > 1


def stall_of(*, dead_after_seconds: float) -> Stall:
    """Return the stall of a worker without tasks."""
    return Stall(holding(), dead_after_seconds=dead_after_seconds)


def test_a_loop_that_lags_between_two_looks_is_not_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a look decides, even if the loop has not turned for a second by now."""
    now = 100.0
    monkeypatch.setattr("orchestrator.worker.stall.time.monotonic", lambda: now)
    stall, worker_id = stall_of(dead_after_seconds=30.0), uuid4()
    stall.seen(worker_id)
    now += 0.9
    assert not stall.look(worker_id)

    now += 0.2

    assert stall.is_on
    assert not stall.is_hung


def test_the_time_before_the_last_turn_is_not_blocked_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop turns between two looks. Only the time since that turn counts."""
    now = 100.0
    monkeypatch.setattr("orchestrator.worker.stall.time.monotonic", lambda: now)
    stall, worker_id = stall_of(dead_after_seconds=1.2), uuid4()
    stall.look(worker_id)
    now += 0.4
    stall.seen(worker_id)
    for pause in (0.1, 1.0):
        now += pause
        assert not stall.look(worker_id)
    now += 0.2

    assert stall.look(worker_id)


def test_a_process_that_was_stopped_is_not_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time in which the process did not run does not count as the loop's, with any dead_after of the worker."""
    now = 100.0
    monkeypatch.setattr("orchestrator.worker.stall.time.monotonic", lambda: now)
    stall, worker_id = stall_of(dead_after_seconds=0.8), uuid4()
    stall.seen(worker_id)
    stall.look(worker_id)
    now += 20.0

    assert not stall.look(worker_id)
    now += 0.5
    assert not stall.look(worker_id)
    now += 0.5
    assert stall.look(worker_id)


PROGRAM = """
import sys
from orchestrator.cli import main
from orchestrator.processes import watchdog
watchdog.LOCKED_SECONDS = 0.5
watchdog.LOCKED_LOOK_SECONDS = 0.1
sys.argv = ["orchestrator", "worker", "tests.worker.tasks:app"]
main()
"""


def test_a_process_whose_interpreter_is_locked_ends(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """No thread of it runs Python any more. The place of the lock is logged."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=surroundings(database_url, **QUICK), cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        enqueue(connection, "shop.hold")
        assert 1 == process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert "in hold" in log.read_text()
