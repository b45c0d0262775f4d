"""Workers as processes: killed, stopped, and paused."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import LiteralString
from unittest import mock

import click
import psycopg
import pytest

from orchestrator.processes import exit_codes
from orchestrator.processes.parent import Parent
from tests.patience import eventually
from tests.tiers import long
from tests.worker.processes import Process, begin, begin_worker, surroundings, worker
from tests.worker.running import attempts, status, statuses, task, value

# The group exports a command of the module's name, which hides the module from `import`.
cli_worker = import_module("orchestrator.cli.worker")

DOOR = 4711
CONFIDENTIAL = "hunter2-in-the-payload"


@contextmanager
def door(url: str, number: int = DOOR) -> Iterator[psycopg.Connection]:
    """Hold the lock for which the handlers of `shop.knock` wait, until the session closes or releases it."""
    with psycopg.connect(url, autocommit=True) as keeper:
        keeper.execute("SELECT pg_advisory_lock(%s)", [number])
        yield keeper


def open_to_all(keeper: psycopg.Connection) -> None:
    keeper.execute("SELECT pg_advisory_unlock_all()")


def enqueue(connection: psycopg.Connection, kind: str, **payload: object) -> int:
    # With one attempt and a short timeout where a task is to fail: no worker has declared the types yet.
    once = kind in ("shop.fail", "shop.doze")
    statement: LiteralString = (
        "SELECT orchestrator.enqueue(%s, %s::jsonb, max_attempts => %s, timeout => %s::interval)"
    )
    return int(
        value(connection, statement, kind, json.dumps(payload), *((1, "0.2 s") if once else (None, None)))
    )


def test_kill_9_between_claim_and_finish_loses_nothing(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Another worker runs the killed worker's task, once more, with the loss and its cause on record."""
    with door(database_url) as keeper:
        ids = [enqueue(connection, "shop.knock", door=DOOR) for _ in range(3)]
        with worker(database_url, tmp_path / "first.log", "-c", "2") as first:
            eventually(lambda: statuses(connection) == {"running": 2, "pending": 1}, "two run")
            first.signal(signal.SIGKILL)
            first.wait()
        open_to_all(keeper)
        with worker(database_url, tmp_path / "second.log", "--until-empty") as second:
            assert 0 == second.wait(), second.log

    assert {"completed": 3} == statuses(connection)
    assert [(2, 1), (2, 1), (1, 0)] == [(task(connection, i).result, task(connection, i).losses) for i in ids]
    assert [[(1, "lost")], [(1, "lost")], []] == [attempts(connection, i) for i in ids]
    assert "was gone while it ran this" in value(
        connection, "SELECT error ->> 'message' FROM orchestrator.attempts LIMIT 1"
    )


def test_kill_9_under_load_loses_nothing(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Again and again, in any state: claimed, running, or between outcome and answer."""
    total = 3000
    connection.execute(
        "INSERT INTO orchestrator.tasks (type) SELECT 'shop.work' FROM generate_series(1, %s)", [total]
    )
    for n in range(1, 4):
        with worker(database_url, tmp_path / f"{n}.log", "-c", "50") as victim:
            eventually(lambda n=n: statuses(connection).get("completed", 0) > n * 300, "some are done")  # type: ignore[misc]
            victim.signal(signal.SIGKILL)
            victim.wait()
    with worker(database_url, tmp_path / "last.log", "-c", "50", "--until-empty") as last:
        assert 0 == last.wait(), last.log

    assert {"completed": total} == statuses(connection)
    # A run too many has a cause on record, and there is none for what had not begun.
    lost = value(connection, "SELECT count(*) FROM orchestrator.attempts WHERE outcome = 'lost'")
    assert lost == value(connection, "SELECT sum(attempt - 1) FROM orchestrator.tasks")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_first_signal_drains(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, number: signal.Signals
) -> None:
    """It claims no more, running tasks may finish, and it exits with 0."""
    with door(database_url) as keeper, worker(database_url, tmp_path / "log", "-c", "1") as process:
        first, second = (enqueue(connection, "shop.knock", door=DOOR) for _ in range(2))
        eventually(lambda: status(connection, first) == "running", "one runs")
        process.signal(number)
        eventually(lambda: process.has_logged("worker stopping"), "it stops")
        eventually(
            lambda: value(connection, "SELECT state FROM orchestrator.workers") == "draining",
            "its row says so",
        )
        assert process.popen.poll() is None
        open_to_all(keeper)
        assert 0 == process.wait(), process.log

    assert ["completed", "pending"] == [status(connection, first), status(connection, second)]
    assert "stopped" == value(connection, "SELECT state FROM orchestrator.workers")
    assert "worker stopped" == process.events()[-1]["event"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_second_signal_hurries(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, number: signal.Signals
) -> None:
    """Running tasks are given back at once, uncharged. The exit status is still 0: nothing was lost."""
    with door(database_url), worker(database_url, tmp_path / "log") as process:
        task_id = enqueue(connection, "shop.knock", door=DOOR)
        eventually(lambda: status(connection, task_id) == "running", "it runs")
        process.signal(number)
        eventually(lambda: process.has_logged("worker stopping"), "it stops")
        process.signal(number)
        assert 0 == process.wait(8), process.log

    assert ("pending", 0) == (status(connection, task_id), task(connection, task_id).attempt)
    assert process.has_logged("task released")


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGTERM, "it closes"),
        (signal.SIGINT, "it closes"),
        (signal.SIGTERM, "the interpreter ends"),
        long(signal.SIGINT, "the interpreter ends"),
    ],
)
def test_a_signal_after_the_loop_leaves_a_clean_stop_clean(
    database_url: str, tmp_path: Path, number: signal.Signals, moment: str
) -> None:
    """It comes while the application closes, or when its interpreter ends: no death by a signal, no traceback."""
    process = signalled_at_end(database_url, tmp_path / "log", number, moment)

    assert 0 == process.wait(), process.log
    assert "worker stopped" == process.events()[-1]["event"]


def test_an_application_that_hangs_when_it_closes_ends_after_a_signal(
    database_url: str, tmp_path: Path
) -> None:
    """The grace is for tasks, and there are none any more."""
    process = signalled_at_end(database_url, tmp_path / "log", signal.SIGTERM, "it hangs")
    try:
        # Sooner than the grace and the time for the last outcomes, 75 s.
        assert 1 == process.wait(45), process.log
    finally:
        process.kill()

    assert process.has_logged("process aborted")


def signalled_at_end(url: str, log: Path, number: signal.Signals, moment: str) -> Process:
    """Start a worker that ends by itself and then gets a signal. Only a new interpreter has an end of its own."""
    settings = {"SIGNALLED_AT_END": moment, "SIGNAL_AT_END": str(int(number))}
    app, fresh = "tests.worker.signalled_at_end:app", moment == "the interpreter ends"
    return begin_worker(url, log, "--until-empty", settings=settings, app=app, fresh=fresh)


def test_a_signal_after_the_children_leaves_a_clean_stop_clean(tmp_path: Path) -> None:
    """The same for the parent of several processes."""
    process = begin(parent_that_is_signalled_at_its_end, log=tmp_path / "log", env=surroundings(None))

    assert 0 == process.wait(), process.log


def parent_that_is_signalled_at_its_end() -> None:
    """Be a parent whose children have all stopped cleanly, and that then gets signals."""
    with mock.patch.object(Parent, "run", return_value=0):
        code = cli_worker.keep(click.Context(cli_worker.worker), 2, None, None)
    for number in exit_codes.STOPPING:
        os.kill(os.getpid(), number)
    sys.exit(code)


def test_a_thread_that_never_ends_does_not_keep_the_process(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The interpreter would wait for it for ever; the command does not."""
    task_id = enqueue(connection, "shop.doze")
    with worker(database_url, tmp_path / "log", "--until-empty") as process:
        assert 0 == process.wait(10), process.log

    assert "dead_letter" == status(connection, task_id)
    assert process.has_logged("handler abandoned")


def test_a_paused_process_finds_its_task_taken_and_goes_on_anew(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """SIGSTOP for longer than dead_after: another worker runs the task. The late outcome changes nothing, and the
    paused worker goes on under a new id."""
    with (
        door(database_url) as keeper,
        worker(database_url, tmp_path / "paused.log") as paused,
    ):
        task_id = enqueue(connection, "shop.knock", door=DOOR)
        eventually(lambda: status(connection, task_id) == "running", "it runs")
        old = value(connection, "SELECT id FROM orchestrator.workers")
        paused.signal(signal.SIGSTOP)
        # Its handler gets through the door behind its back, and has an outcome when it comes to.
        open_to_all(keeper)
        with worker(database_url, tmp_path / "other.log", "--until-empty") as other:
            assert 0 == other.wait(), other.log
        row = task(connection, task_id)
        paused.signal(signal.SIGCONT)
        eventually(lambda: lost_its_leases(paused), "it is told")
        after = enqueue(connection, "shop.add", first=1, second=2)
        eventually(lambda: status(connection, after) == "completed", "it serves again")
        paused.signal(signal.SIGTERM)
        assert 0 == paused.wait(), paused.log

    assert ("completed", 2, 1, [(1, "lost")]) == (
        row.status,
        row.result,
        row.losses,
        attempts(connection, task_id),
    )
    assert row == task(connection, task_id)
    assert old not in (row.worker_id, task(connection, after).worker_id)
    assert "dead" == value(connection, "SELECT state FROM orchestrator.workers WHERE id = %s", old)


def test_a_late_outcome_changes_nothing_while_another_runs_the_task(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The first worker's success arrives while the second attempt runs: only the second outcome is written."""
    with (
        door(database_url) as first_door,
        door(database_url, DOOR + 1) as second_door,
        worker(database_url, tmp_path / "paused.log") as paused,
    ):
        task_id = enqueue(connection, "shop.knock", door=DOOR, next_door=DOOR + 1)
        eventually(lambda: status(connection, task_id) == "running", "it runs")
        paused.signal(signal.SIGSTOP)
        with worker(database_url, tmp_path / "other.log", "--until-empty") as other:
            eventually(lambda: runs_again(connection, task_id), "another runs it")
            open_to_all(first_door)
            paused.signal(signal.SIGCONT)
            eventually(lambda: lost_its_leases(paused), "the first one is told")
            meanwhile = task(connection, task_id)
            open_to_all(second_door)
            assert 0 == other.wait(), other.log

    assert ("running", 2, None) == (meanwhile.status, meanwhile.attempt, meanwhile.result)
    row = task(connection, task_id)
    assert ("completed", 2, meanwhile.worker_id) == (row.status, row.result, row.worker_id)


def runs_again(connection: psycopg.Connection, task_id: int) -> bool:
    row = task(connection, task_id)
    return (row.attempt, row.status) == (2, "running")


def test_a_blocked_loop_makes_no_worker_dead(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The beat has a thread of its own."""
    task_id = enqueue(connection, "shop.busy", seconds=2.5)
    with worker(database_url, tmp_path / "busy.log", "--until-empty") as busy:
        eventually(lambda: status(connection, task_id) == "running", "it runs")
        # Another one, that would take its task if its beat were missed.
        with worker(database_url, tmp_path / "other.log", "--until-empty") as other:
            assert 0 == other.wait(), other.log
        assert 0 == busy.wait(), busy.log

    assert ("completed", 1, 0) == (
        status(connection, task_id), task(connection, task_id).attempt, task(connection, task_id).losses,
    )  # fmt: skip


def test_a_worker_survives_a_restart_of_its_server(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """All its sessions end at once; it goes on by itself."""
    with worker(database_url, tmp_path / "log") as process:
        first = enqueue(connection, "shop.add", first=1, second=2)
        eventually(lambda: status(connection, first) == "completed", "it serves")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        second = enqueue(connection, "shop.add", first=2, second=2)
        eventually(lambda: status(connection, second) == "completed", "it serves again")
        process.signal(signal.SIGTERM)
        assert 0 == process.wait(), process.log

    assert 4 == task(connection, second).result


def test_log_lines_are_json_and_hold_no_payload(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """On standard error, without a terminal. At that level every change of state is a line."""
    enqueue(connection, "shop.fail", secret=CONFIDENTIAL)
    enqueue(connection, "shop.fail", stranger=CONFIDENTIAL)
    enqueue(connection, "nobody.knows", secret=CONFIDENTIAL)
    with worker(database_url, tmp_path / "log", "--until-empty", "--log-level", "debug") as process:
        assert 0 == process.wait(), process.log

    lines = process.events()
    assert {"event", "level", "timestamp"} <= set.intersection(*(set(line) for line in lines))
    names = [line["event"] for line in lines]
    assert {"worker started", "task started", "task dead lettered", "task put back", "worker stopped"} <= set(
        names
    )
    assert CONFIDENTIAL not in process.log


def lost_its_leases(process: Process) -> bool:
    """Return whether it has logged that its leases are void: by the database, or by its own clock."""
    return process.has_logged("worker declared dead") or process.has_logged("worker cut off")
