"""Handlers that break in unexpected places, cancel themselves, or do not end."""

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from orchestrator import Orchestrator, events
from orchestrator.worker import end_attempts
from tests.patience import PATIENCE_SECONDS
from tests.worker.processes import start, surroundings
from tests.worker.running import attempts, recorded, run_until_empty, status, task, until, working


@dataclass
class Breaking:
    """A user's class whose constructor refuses its arguments."""

    how: str

    def __post_init__(self) -> None:
        raise SystemExit(3) if self.how == "exit" else KeyError("secret")


@pytest.mark.parametrize(("how", "error_class"), [("key", "TypeError"), ("exit", "SystemExit")])
def test_an_argument_that_cannot_be_built_ends_the_attempt(
    app: Orchestrator, connection: psycopg.Connection, how: str, error_class: str
) -> None:
    """For any exception of a constructor. Its text is not repeated, because it may contain payload."""

    @app.task(name="buy", max_attempts=1)
    async def buy(item: Breaking) -> None: ...

    handle = buy.enqueue(item={"how": how})
    run_until_empty(app)

    row = task(connection, handle.id)
    assert ("dead_letter", error_class) == (row.status, row.error["class"])
    assert "secret" not in row.error["message"]


def test_a_handler_that_cancels_its_own_task_has_failed(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Only the worker's cancellation gives a task back uncharged; otherwise such a task would run for ever."""

    @app.task(name="hara", max_attempts=1)
    async def kiri() -> None:
        this = asyncio.current_task()
        assert this is not None
        this.cancel()
        await asyncio.sleep(30)

    handle = kiri.enqueue()
    run_until_empty(app)

    assert ("dead_letter", [(1, "failed")]) == (
        status(connection, handle.id),
        attempts(connection, handle.id),
    )
    assert "CancelledError" in task(connection, handle.id).error["class"]


async def test_a_coroutine_that_ignores_its_timeout_loses_its_slot(
    app: Orchestrator, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker abandons it, reports it, and uses the slot for the next task."""
    monkeypatch.setattr(end_attempts, "CANCEL_SECONDS", 0.1)
    monkeypatch.setattr(end_attempts, "WATCH_SECONDS", 0.02)
    let_go = asyncio.Event()

    @app.task(name="deaf", timeout=0.05, max_attempts=1)
    async def deaf() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    @app.task(name="next")
    async def following() -> str:
        return "ran"

    first, second = deaf.enqueue(), following.enqueue()

    with recorded(events.HandlerAbandoned) as abandoned:
        async with working(app, concurrency=1):
            await until(lambda: status(connection, second.id) == "completed", "the next task ran")
            let_go.set()

    assert [events.HandlerAbandoned(first.id, "deaf")] == abandoned
    assert ("dead_letter", "Timeout") == (
        status(connection, first.id),
        task(connection, first.id).error["class"],
    )


def test_a_process_with_a_handler_that_ignores_everything_still_ends(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """After two SIGTERMs the process has ended and its task is given back."""
    (tmp_path / "deaf.py").write_text(
        "import asyncio\n"
        "from orchestrator import Orchestrator\n"
        "app = Orchestrator()\n"
        "@app.task(name='deaf')\n"
        "async def deaf() -> None:\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.sleep(1000)\n"
        "        except asyncio.CancelledError:\n"
        "            pass\n"
    )
    row = connection.execute("SELECT orchestrator.enqueue('deaf')").fetchone()
    assert row is not None
    process = start(
        "worker",
        "deaf:app",
        "--grace",
        "0",
        env=surroundings(database_url),
        out=tmp_path / "log",
        cwd=tmp_path,
    )
    try:
        asyncio.run(until(lambda: status(connection, row[0]) == "running", "the handler runs"))
        process.send_signal(signal.SIGTERM)

        assert 0 == process.wait(PATIENCE_SECONDS)
        assert "pending" == status(connection, row[0])
    finally:
        process.kill()
        process.wait()
