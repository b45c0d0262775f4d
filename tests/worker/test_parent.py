"""`orchestrator worker --processes N`: killed, stopped in each way, drained, orphaned."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.forked import REPOSITORY
from tests.patience import PATIENCE_SECONDS, eventually
from tests.terminal import at_terminal
from tests.tiers import long
from tests.worker.processes import QUICK, Process, begin_worker, run, surroundings, worker
from tests.worker.running import attempts, status, statuses, task, value
from tests.worker.test_processes import DOOR, door, enqueue, open_to_all

SHOP = "tests.worker.tasks:app"


def children(process: Process) -> list[int]:
    """Return the pids of the started worker processes, in order."""
    return [line["pid"] for line in process.events() if line["event"] == "child started"]


def is_gone(pid: int) -> bool:
    """Return whether a process has ended. An orphan may stay a zombie for as long as its new parent wants."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state.rpartition(")")[2].split()[0] == "Z"


def serving(connection: psycopg.Connection) -> int:
    return int(value(connection, "SELECT count(*) FROM orchestrator.workers WHERE state = 'running'"))


@contextmanager
def parent_with(
    url: str, connection: psycopg.Connection, log: Path, *words: str, size: int = 2, **settings: str
) -> Iterator[Process]:
    """Run a parent whose children all serve. None of them is left when the block ends well."""
    with worker(url, log, "-p", str(size), *words, **settings) as parent:
        eventually(lambda: serving(connection) == size, "all serve")
        yield parent
        assert parent.popen.poll() is not None, parent.log
        eventually(lambda: all(map(is_gone, children(parent))), "no process is left")


@contextmanager
def busy_parent(
    url: str, connection: psycopg.Connection, log: Path
) -> Iterator[tuple[Process, list[int], psycopg.Connection]]:
    """The same, each child with one task that waits behind a door."""
    with door(url) as keeper, parent_with(url, connection, log, "-c", "1") as parent:
        ids = [enqueue(connection, "shop.knock", door=DOOR) for _ in range(2)]
        eventually(lambda: statuses(connection) == {"running": 2}, "both are busy")
        yield parent, ids, keeper


def drained(connection: psycopg.Connection, count: int) -> bool:
    states = connection.execute("SELECT state FROM orchestrator.workers WHERE state = 'draining'").fetchall()
    return len(states) == count


def test_each_process_is_a_worker_with_a_row_of_its_own(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Each gets the parent's options."""
    with parent_with(
        database_url, connection, tmp_path / "log", "-c", "3", "-q", "mail, sms", "--grace", "7.5", size=3
    ) as parent:
        rows = connection.execute("SELECT pid, capacity, queues FROM orchestrator.workers").fetchall()
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait(), parent.log

    assert sorted((pid, 3, ["mail", "sms"]) for pid in children(parent)) == sorted(rows)
    graces = [line["grace_seconds"] for line in parent.events() if line["event"] == "worker stopping"]
    assert [7.5] * 3 == graces
    assert [("stopped", 3)] == connection.execute(
        "SELECT state, count(*) FROM orchestrator.workers GROUP BY state"
    ).fetchall()


def test_the_environment_may_say_how_many(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The children have the same environment and start no children themselves."""
    with worker(database_url, tmp_path / "log", ORCHESTRATOR_PROCESSES="2") as parent:
        eventually(lambda: serving(connection) == 2, "both serve")
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait(), parent.log

    assert 2 == len(children(parent))


def test_a_killed_child_is_replaced_and_its_tasks_are_done(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """One line says how it died and when another follows. The parent's own end is clean."""
    with busy_parent(database_url, connection, tmp_path / "log") as (parent, ids, keeper):
        victim = children(parent)[0]
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: len(children(parent)) == 3, "another takes its place")
        open_to_all(keeper)
        eventually(lambda: statuses(connection) == {"completed": 2}, "all is done")
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait(), parent.log

    assert [0, 1] == sorted(task(connection, i).losses for i in ids)
    (died,) = [line for line in parent.events() if line["event"] == "child died"]
    assert (1, victim, "signal 9 (SIGKILL)") == (died["place"], died["pid"], died["how"])
    assert 0.45 <= died["restart_after_seconds"] <= 0.55


def test_a_worn_out_child_is_replaced_at_once(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """It has too many abandoned threads. Restarts exist for that, so the parent's exit status is 0."""
    with parent_with(
        database_url, connection, tmp_path / "log", ORCHESTRATOR_LEAKED_THREADS_MAX="0"
    ) as parent:
        task_id = enqueue(connection, "shop.doze")
        eventually(lambda: len(children(parent)) == 3 and serving(connection) == 2, "another takes its place")
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait(), parent.log

    (died,) = [line for line in parent.events() if line["event"] == "child died"]
    assert ("exit code 75 (worn out)", 0.0) == (died["how"], died["restart_after_seconds"])
    assert "dead_letter" == status(connection, task_id)


@pytest.mark.parametrize("number", [signal.SIGTERM, long(signal.SIGINT), long(signal.SIGHUP)])
def test_a_first_signal_lets_all_of_them_finish(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, number: signal.Signals
) -> None:
    """They claim no more, running tasks finish, and no process is left."""
    with busy_parent(database_url, connection, tmp_path / "log") as (parent, ids, keeper):
        parent.signal(number)
        eventually(lambda: drained(connection, 2), "both drain")
        after = enqueue(connection, "shop.knock", door=DOOR)
        open_to_all(keeper)
        assert 0 == parent.wait(), parent.log

    assert ["completed", "completed", "pending"] == [status(connection, i) for i in (*ids, after)]
    assert [[], []] == [attempts(connection, i) for i in ids]


def test_a_stop_does_not_wait_for_an_application_that_loads(database_url: str, tmp_path: Path) -> None:
    """No task has begun, so none has to finish. The end is no death."""
    (tmp_path / "slow.py").write_text("import threading\nthreading.Event().wait(600)\n")
    path = f"{tmp_path}:{REPOSITORY}"
    parent = begin_worker(
        database_url, tmp_path / "log", "-p", "2", settings={**QUICK, "PYTHONPATH": path}, app="slow:app"
    )
    try:
        eventually(lambda: parent.has_logged("child started"), "one loads it")
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait(10), parent.log
    finally:
        parent.kill()

    assert ["child started", "children stopping", "child ended"] == [
        line["event"] for line in parent.events()
    ]


def test_a_second_signal_hurries_all_of_them(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Running tasks are given back at once, uncharged."""
    with busy_parent(database_url, connection, tmp_path / "log") as (parent, ids, _):
        parent.signal(signal.SIGTERM)
        eventually(lambda: drained(connection, 2), "both drain")
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait(8), parent.log

    assert [("pending", 0)] * 2 == [(status(connection, i), task(connection, i).attempt) for i in ids]


@pytest.mark.long
def test_a_signal_to_the_whole_service_counts_once(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """systemd sends it to all by default: to the parent, which informs the children, and to each of the children."""
    with busy_parent(database_url, connection, tmp_path / "log") as (parent, ids, keeper):
        for pid in (parent.pid, *children(parent)):
            os.kill(pid, signal.SIGTERM)
        eventually(lambda: drained(connection, 2), "both drain")
        for pid in children(parent):
            os.kill(pid, signal.SIGTERM)
        # The handlers of those signals ran before whatever a connection of theirs brought next.
        open_to_all(keeper)
        assert 0 == parent.wait(), parent.log

    assert [("completed", 1)] * 2 == [(status(connection, i), task(connection, i).attempt) for i in ids]


def test_ctrl_c_at_a_terminal_counts_once(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The key reaches all processes in the terminal's foreground. The children, which would print a traceback while
    they load the application, are not in it."""
    with (
        door(database_url) as keeper,
        at_terminal("worker", SHOP, "-p", "2", "-c", "1", cwd=REPOSITORY, url=database_url) as parent,
    ):
        eventually(lambda: serving(connection) == 2, "both serve")
        ids = [enqueue(connection, "shop.knock", door=DOOR) for _ in range(2)]
        eventually(lambda: statuses(connection) == {"running": 2}, "both are busy")
        pids = connection.execute("SELECT pid FROM orchestrator.workers").fetchall()
        assert [pid for (pid,) in pids] == [os.getpgid(pid) for (pid,) in pids]
        parent.presses_ctrl_c()
        eventually(lambda: drained(connection, 2), "both drain")
        open_to_all(keeper)
        assert 0 == parent.ends(), parent.shown

    assert [("completed", 1)] * 2 == [(status(connection, i), task(connection, i).attempt) for i in ids]
    assert "Traceback" not in parent.shown


@pytest.mark.parametrize("drains", [False, True], ids=["while it works", "while they drain"])
def test_children_of_a_killed_parent_finish_and_end(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, drains: bool
) -> None:
    """They notice the end of the connection to the parent. Draining children do not hurry: it is no second signal."""
    with busy_parent(database_url, connection, tmp_path / "log") as (parent, ids, keeper):
        if drains:
            parent.signal(signal.SIGTERM)
            eventually(lambda: drained(connection, 2), "both drain")
        parent.signal(signal.SIGKILL)
        parent.wait()
        eventually(lambda: drained(connection, 2), "both drain")
        open_to_all(keeper)
        eventually(lambda: all(map(is_gone, children(parent))), "they are gone")

    assert [("completed", 1)] * 2 == [(status(connection, i), task(connection, i).attempt) for i in ids]


def test_a_manually_drained_worker_is_not_replaced(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The other goes on. When all of them are drained, the parent ends with status 0."""
    drain = "SELECT orchestrator.drain_worker(id) FROM orchestrator.workers WHERE pid = %s"
    with parent_with(database_url, connection, tmp_path / "log") as parent:
        first, second = children(parent)
        connection.execute(drain, [first])
        eventually(lambda: parent.has_logged("child ended"), "it ends")
        task_id = enqueue(connection, "shop.work")
        eventually(lambda: status(connection, task_id) == "completed", "the other goes on")
        connection.execute(drain, [second])
        assert 0 == parent.wait(), parent.log

    assert second == task(connection, task_id).result
    assert [first, second] == children(parent)


def test_until_empty_ends_with_all_of_them(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """A child that finds no more tasks ends, and is not replaced."""
    connection.execute(
        "INSERT INTO orchestrator.tasks (type) SELECT 'shop.work' FROM generate_series(1, 500)"
    )
    with worker(database_url, tmp_path / "log", "-p", "2", "--until-empty") as parent:
        assert 0 == parent.wait(), parent.log

    assert {"completed": 500} == statuses(connection)
    assert 2 == len(children(parent))


@pytest.mark.long
def test_a_file_named_like_a_module_of_python_does_not_keep_children_from_starting(
    database_url: str, tmp_path: Path
) -> None:
    """The current folder is the application's, and has the same place in a child's path as in `orchestrator` itself."""
    (tmp_path / "selectors.py").write_text("raise RuntimeError('this one is for the application')\n")
    (tmp_path / "jobs.py").write_text("from orchestrator import Orchestrator\napp = Orchestrator()\n")
    script = Path(sys.executable).with_name("orchestrator")

    done = subprocess.run(
        [script, "worker", "jobs", "-p", "2", "--until-empty"], env=surroundings(database_url), cwd=tmp_path,
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ("tests.worker.shob:app", 2, "there is no module 'tests.worker.shob'"),
        ("tests.worker.tasks:apq", 2, "did you mean tests.worker.tasks:app?"),
        (SHOP, 1, "no orchestrator schema yet; run `orchestrator migrate`"),
    ],
)
def test_an_error_at_the_start_is_reported_once(
    empty_database_url: str, spec: str, code: int, message: str
) -> None:
    """By the first child only; the parent starts no other."""
    done = run("worker", spec, "-p", "3", url=empty_database_url)

    assert (code, 1) == (done.returncode, done.stderr.count(message)), done.stderr
    assert (1, 1) == (done.stderr.count('"child started"'), done.stderr.count('"child died"'))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-p", "0"], "0 is not in the range"),
        (["-p", "two"], "'two' is not a valid integer"),
        (["-p", "2", "-q", ","], "no queue is named"),
    ],
)
def test_a_wrong_command_line_starts_no_worker(words: list[str], message: str) -> None:
    """Exit status 2."""
    done = run("worker", SHOP, *words)

    assert (2, True, False) == (done.returncode, message in done.stderr, "child started" in done.stderr)
