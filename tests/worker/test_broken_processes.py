"""Handlers that fork the process they run in, or close its descriptors."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.forked import REPOSITORY
from tests.patience import PATIENCE_SECONDS
from tests.tiers import long
from tests.worker.processes import eventually, surroundings, worker
from tests.worker.running import status, statuses, task, value
from tests.worker.test_parent import children, is_gone, serving

APP = "tests.worker.breaking:app"
FORKS = ["fork", "fork_in_thread", "fork_in_process"]


def enqueue(connection: psycopg.Connection, kind: str, **payload: object) -> int:
    return int(
        value(
            connection, "SELECT orchestrator.enqueue(%s, %s::jsonb)", f"breaking.{kind}", json.dumps(payload)
        )
    )


def sessions(connection: psycopg.Connection) -> int:
    """Count what workers have open."""
    return int(
        value(
            connection,
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'orchestrator %%'",
        )
    )


@pytest.mark.parametrize("kind", FORKS)
@pytest.mark.parametrize(("how", "code"), [("return", 0), ("raise", 1), long("exit", 3), long("await", 0)])
def test_a_forked_copy_ends_where_its_handler_ends(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, kind: str, how: str, code: int
) -> None:
    """Its exit code is that of a program that ends so. The tasks that wait run once, in the worker."""
    connection.execute("CREATE TABLE journal (one int)")
    task_id = enqueue(connection, kind, how=how, path="")
    for _ in range(20):
        enqueue(connection, "jot")
    with worker(database_url, tmp_path / "log", "-c", "1", "--until-empty", app=APP) as process:
        assert 0 == process.wait(), process.log

    assert {"completed": 21} == statuses(connection)
    assert (code, 20) == (task(connection, task_id).result, value(connection, "SELECT count(*) FROM journal"))
    assert not process.said("stale outcome")


@pytest.mark.parametrize("kind", ["fork", long("fork_in_thread"), "fork_in_process"])
def test_a_forked_copy_that_lives_on_keeps_nothing_of_a_worker_that_ends(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, kind: str
) -> None:
    """Not its sessions, so that its beacon goes out; and a parent replaces it without waiting for the copy."""
    path = tmp_path / "pid"
    with worker(database_url, tmp_path / "log", "-p", "2", app=APP) as parent:
        eventually(lambda: serving(connection) == 2, "both serve")
        task_id = enqueue(connection, kind, how="stay", path=str(path))
        eventually(lambda: status(connection, task_id) == "completed", "it has forked")
        copy = int(path.read_text())
        try:
            pid = value(
                connection,
                "SELECT pid FROM orchestrator.workers WHERE id = %s",
                task(connection, task_id).worker_id,
            )
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: len(children(parent)) == 3, "another is started")
            eventually(lambda: serving(connection) == 2, "its place is taken")
            parent.signal(signal.SIGTERM)
            assert 0 == parent.wait(), parent.log
            eventually(lambda: sessions(connection) == 0, "no session is left")
            eventually(lambda: all(map(is_gone, children(parent))), "the workers are gone")
            assert kind == "fork_in_process" or not is_gone(copy)
        finally:
            if not is_gone(copy):
                os.kill(copy, signal.SIGKILL)


@pytest.mark.parametrize("kind", FORKS)
def test_a_forked_copy_does_not_keep_a_worker_from_ending(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, kind: str
) -> None:
    """It ends on SIGTERM as ever."""
    path = tmp_path / "pid"
    with worker(database_url, tmp_path / "log", app=APP) as process:
        task_id = enqueue(connection, kind, how="stay", path=str(path))
        eventually(lambda: status(connection, task_id) == "completed", "it has forked")
        copy = int(path.read_text())
        try:
            process.signal(signal.SIGTERM)
            assert 0 == process.wait(), process.log
        finally:
            if not is_gone(copy):
                os.kill(copy, signal.SIGKILL)

    assert process.said("worker stopped")


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("close", {"wait": False}),
        long("close", {"wait": True}),
        long("close_in_thread", {"wait": False}),
        ("close_in_thread", {"wait": True}),
        ("close_all_but_loop", {}),
    ],
)
def test_a_worker_without_descriptors_ends_and_is_replaced(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, kind: str, payload: dict[str, bool]
) -> None:
    """It cannot hear its parent, a signal or the database, so it ends by itself; the task is a loss or a failure."""
    with worker(database_url, tmp_path / "log", "-p", "2", app=APP) as parent:
        eventually(lambda: serving(connection) == 2, "both serve")
        task_id = enqueue(connection, kind, **payload)
        eventually(lambda: parent.said("child died"), "one dies")
        eventually(lambda: status(connection, task_id) == "dead_letter", "its task is given up")
        eventually(lambda: serving(connection) == 2, "its place is taken")
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait(), parent.log

    assert "a handler has closed the descriptors of the process" in parent.log
    assert "Traceback" not in parent.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_whose_loop_cannot_be_woken_ends_cleanly(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, number: signal.Signals
) -> None:
    """Python's own handler takes the signal where the loop's is not reached."""
    with worker(database_url, tmp_path / "log", app=APP) as process:
        task_id = enqueue(connection, "close_wakeup")
        eventually(lambda: status(connection, task_id) == "completed", "it is closed")
        process.signal(number)
        assert 0 == process.wait(), process.log

    assert process.said("worker stopped")


def test_a_second_signal_ends_a_worker_whose_loop_is_blocked(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Nothing can be given back then: at once, and by force."""
    with worker(database_url, tmp_path / "log", app=APP) as process:
        enqueue(connection, "block")
        eventually(lambda: process.said("loop blocked"), "it is blocked")
        for _ in range(2):
            process.signal(signal.SIGTERM)
            eventually(lambda: not pending(process.pid, signal.SIGTERM), "it is delivered")
        assert 1 == process.wait(), process.log

    assert process.said("process given up")


def test_a_single_signal_ends_a_worker_whose_loop_is_blocked(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """When the grace is long over."""
    program = "import sys\nfrom orchestrator.worker import watchdog\nwatchdog.END_SECONDS = 0.1\n"
    program += "from orchestrator.cli import main\nmain()\n"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "worker", APP, "--grace", "0"], env=surroundings(database_url),
            cwd=REPOSITORY, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        enqueue(connection, "block")
        eventually(lambda: "loop blocked" in (tmp_path / "log").read_text(), "it is blocked")
        process.send_signal(signal.SIGTERM)
        assert 1 == process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()

    assert "it was told to stop, and did not end in time" in (tmp_path / "log").read_text()


def pending(pid: int, number: signal.Signals) -> bool:
    """Tell whether a signal has not been delivered yet."""
    line = next(
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("ShdPnd")
    )
    return bool(int(line.split()[1], 16) & 1 << number - 1)
