"""`orchestrator dev`: one command starts a server, its tables and a worker, and ends all of them."""

import re
import signal
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from orchestrator.postgres import embedded
from tests.demo.left_over import assert_nothing_left, processes_of
from tests.patience import eventually
from tests.terminal import AtTerminal, at_terminal
from tests.worker.processes import run
from tests.worker.running import value

JOBS = """
from orchestrator import Orchestrator

app = Orchestrator()


@app.task(name="jobs.double", queue="sums")
def double(number: int) -> int:
    return 2 * number
"""


@pytest.fixture
def jobs(here: Path) -> Path:
    """A folder with an application in it."""
    (here / "jobs.py").write_text(JOBS)
    return here


def result_of(connection: psycopg.Connection, number: int) -> int:
    """Enqueue a task, and wait for what comes of it."""
    task_id = value(
        connection,
        "SELECT orchestrator.enqueue('jobs.double', jsonb_build_object('number', %s::int))",
        number,
    )
    asked = "SELECT status = 'completed' FROM orchestrator.tasks WHERE id = %s"
    eventually(lambda: value(connection, asked, task_id), "the task is completed")
    return int(value(connection, "SELECT result FROM orchestrator.tasks WHERE id = %s", task_id))


def serving(dev: AtTerminal) -> None:
    dev.shows("worker started")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_command_serves_a_task_and_stops_cleanly(jobs: Path, number: signal.Signals) -> None:
    """From nothing, in the default folder; the environment that it prints is that of one's other processes."""
    folder = jobs / ".orchestrator" / "pgdata"
    with at_terminal("dev", "jobs:app", cwd=jobs) as dev:
        serving(dev)
        printed = re.search(r"export ORCHESTRATOR_DATABASE_URL=(\S+)", dev.shown)
        assert printed is not None, dev.shown
        assert f"embedded:{folder}" == printed[1]
        try:
            with closing(psycopg.connect(embedded.start(folder), autocommit=True)) as connection:
                assert 42 == result_of(connection, 21)
        finally:
            embedded.release(folder)

        if number == signal.SIGINT:
            dev.presses_ctrl_c()
        else:
            dev.popen.send_signal(number)

        assert 0 == dev.ends(), dev.shown
        assert "worker stopped" in dev.shown
        assert "Traceback" not in dev.shown
        assert {} == processes_of(jobs)


def test_the_data_are_kept_from_day_to_day(jobs: Path) -> None:
    """The second start finds the tables, and what is in them."""
    shown = []
    for _ in range(2):
        with at_terminal("dev", "jobs:app", "--data", "day", cwd=jobs) as dev:
            serving(dev)
            try:
                with closing(psycopg.connect(embedded.start(jobs / "day"), autocommit=True)) as connection:
                    result_of(connection, 1)
                    kept = value(connection, "SELECT count(*) FROM orchestrator.tasks")
            finally:
                embedded.release(jobs / "day")
            dev.presses_ctrl_c()
            assert 0 == dev.ends(), dev.shown
            shown.append(dev.shown)
        assert_nothing_left(jobs)

    assert 2 == kept
    assert [True, False] == ["the database had no schema and is at" in text for text in shown]


def test_an_existing_database_is_served_as_well(jobs: Path, empty_database_url: str) -> None:
    """--url beats the environment; nothing is started."""
    with at_terminal(
        "dev", "jobs:app", "--url", empty_database_url, cwd=jobs, url="postgresql://nobody@127.0.0.1:1/x"
    ) as dev:
        serving(dev)
        with closing(psycopg.connect(empty_database_url, autocommit=True)) as connection:
            assert 42 == result_of(connection, 21)
        dev.presses_ctrl_c()
        assert 0 == dev.ends(), dev.shown

    assert not (jobs / ".orchestrator").exists()


@pytest.mark.parametrize("moment", ["PostgreSQL: ", "export "])
def test_ctrl_c_at_the_start_leaves_nothing(jobs: Path, moment: str) -> None:
    """While the server starts, and right after."""
    with at_terminal("dev", "jobs:app", cwd=jobs) as dev:
        dev.shows(moment)
        dev.presses_ctrl_c()
        assert dev.ends() in (0, 130), dev.shown
    assert_nothing_left(jobs)


def test_two_databases_are_one_too_many(jobs: Path) -> None:
    """Exit status 2: the command line was wrong."""
    done = run("dev", "jobs:app", "--url", "postgresql://x@127.0.0.1:1/x", "--data", "day", cwd=jobs)

    assert 2 == done.returncode
    assert "--url and --data name two databases" in done.stderr


def test_the_error_for_a_missing_database_mentions_dev(jobs: Path) -> None:
    """Every command that needs one says how to give one, and what to do without."""
    errors = [run(*words, cwd=jobs).stderr for words in (["worker", "jobs:app"], ["migrate"], ["sql"])]

    assert [True] * 3 == ["`orchestrator dev MODULE:APP`" in text for text in errors]
