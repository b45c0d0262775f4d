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
from tests.patience import PATIENCE_SECONDS, eventually
from tests.tiers import long
from tests.worker.processes import surroundings, worker
from tests.worker.running import attempts, status, statuses, task, value
from tests.worker.test_parent import children, is_gone, serving

APP = "tests.worker.breaking:app"
FORKS = ["fork", "fork_in_thread", "fork_in_process"]
BLOCKS = ["block", "block_in_c"]


def enqueue(connection: psycopg.Connection, kind: str, **payload: object) -> int:
    return int(
        value(
            connection, "SELECT orchestrator.enqueue(%s, %s::jsonb)", f"breaking.{kind}", json.dumps(payload)
        )
    )


def sessions(connection: psycopg.Connection) -> int:
    """Count the open sessions of workers."""
    return int(
        value(
            connection,
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'orchestrator %%'",
        )
    )


@pytest.mark.parametrize("kind", FORKS)
@pytest.mark.parametrize(
    ("how", "code"), [("return", 0), long("raise", 1), long("exit", 3), long("await", 0)]
)
def test_a_forked_copy_ends_where_its_handler_ends(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, kind: str, how: str, code: int
) -> None:
    """Its exit code is that of a program that ends in the same way. The waiting tasks run once, in the worker."""
    connection.execute("CREATE TABLE journal (one int)")
    task_id = enqueue(connection, kind, how=how, path="")
    for _ in range(20):
        enqueue(connection, "jot")
    with worker(database_url, tmp_path / "log", "-c", "1", "--until-empty", app=APP) as process:
        assert 0 == process.wait(), process.log

    assert {"completed": 21} == statuses(connection)
    assert (code, 20) == (task(connection, task_id).result, value(connection, "SELECT count(*) FROM journal"))
    assert not process.has_logged("stale outcome")


@pytest.mark.parametrize("kind", ["fork", long("fork_in_thread"), "fork_in_process"])
def test_a_forked_copy_that_lives_on_keeps_nothing_of_a_worker_that_ends(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, kind: str
) -> None:
    """It does not keep the worker's sessions, so the beacon is lost, and a parent replaces the worker without a wait
    for the copy."""
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
    """The worker ends on SIGTERM as usual."""
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

    assert process.has_logged("worker stopped")


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
    """It cannot receive messages of its parent, signals or answers of the database, so it ends itself. The task is a
    loss or a failure."""
    with worker(database_url, tmp_path / "log", "-p", "2", app=APP) as parent:
        eventually(lambda: serving(connection) == 2, "both serve")
        task_id = enqueue(connection, kind, **payload)
        eventually(lambda: status(connection, task_id) not in ("pending", "claimed"), "it runs")
        # Without the pause the task would end one child after another, until it is a dead letter.
        value(connection, "SELECT orchestrator.pause_queue('default')")
        eventually(lambda: parent.has_logged("child died"), "one dies")
        eventually(lambda: status(connection, task_id) in ("pending", "dead_letter"), "its attempt has ended")
        eventually(lambda: serving(connection) == 2, "its place is taken")
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait(), parent.log

    assert attempts(connection, task_id)[0] in [(1, "lost"), (1, "failed")]
    assert "a handler has closed the descriptors of the process" in parent.log
    assert "Traceback" not in parent.log


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("close_wakeup", signal.SIGTERM),
        long("close_wakeup", signal.SIGINT),
        long("take_wakeups", signal.SIGTERM),
        ("take_wakeups", signal.SIGINT),
    ],
)
def test_a_worker_whose_wakeups_are_taken_ends_cleanly(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, number: signal.Signals, kind: str
) -> None:
    """The signal reaches the worker where the wakeup does not reach the loop, or reaches only the loop."""
    with worker(database_url, tmp_path / "log", app=APP) as process:
        task_id = enqueue(connection, kind)
        eventually(lambda: status(connection, task_id) == "completed", "they are taken")
        process.signal(number)
        assert 0 == process.wait(), process.log

    assert process.has_logged("worker stopped")


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_second_signal_ends_a_worker_whose_loop_is_blocked(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, kind: str
) -> None:
    """It cannot give tasks back then, so it ends at once."""
    with worker(database_url, tmp_path / "log", app=APP) as process:
        enqueue(connection, kind)
        eventually(lambda: process.has_logged("loop blocked"), "it is blocked")
        for _ in range(2):
            process.signal(signal.SIGTERM)
            eventually(lambda: not pending(process.pid, signal.SIGTERM), "it is delivered")
        assert 1 == process.wait(), process.log

    assert process.has_logged("process aborted")


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_single_signal_ends_a_worker_whose_loop_is_blocked(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, kind: str
) -> None:
    """Some time after the end of the grace."""
    enqueue(connection, kind)

    log = log_of_stopped(database_url, tmp_path / "log", when="loop blocked")

    assert "it did not end in time after the request to stop" in log


def test_a_single_signal_ends_a_blocked_worker_that_can_start_no_thread(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """It writes its last message in a thread, and ends without one."""
    enqueue(connection, "block_without_threads")

    log = log_of_stopped(database_url, tmp_path / "log", when="can't start new thread")

    assert "Exception in thread" not in log


def log_of_stopped(url: str, path: Path, *, when: str) -> str:
    """Stop a worker whose grace is short by one signal when it has logged this, and return its log."""
    program = "import sys\nfrom orchestrator.processes import watchdog\nwatchdog.END_SECONDS = 0.1\n"
    program += "from orchestrator.cli import main\nmain()\n"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "worker", APP, "--grace", "0"], env=surroundings(url),
            cwd=REPOSITORY, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        eventually(lambda: when in path.read_text(), when)
        process.send_signal(signal.SIGTERM)
        assert 1 == process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
    return path.read_text()


def pending(pid: int, number: signal.Signals) -> bool:
    """Return whether a signal has not been delivered yet."""
    line = next(
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("ShdPnd")
    )
    return bool(int(line.split()[1], 16) & 1 << number - 1)
