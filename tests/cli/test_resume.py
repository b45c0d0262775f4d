"""`orchestrator resume --after-restore`: what it shows, asks and prints."""

from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.schema.rows import put, read, sleeping_worker
from tests.terminal import at_terminal
from tests.worker.processes import run
from tests.worker.running import value

AT_HOME = "SELECT orchestrator.at_home()"


@pytest.fixture
def copy(connection: psycopg.Connection) -> int:
    """Make the database a copy, with a worker that holds a task and leads. Return the task's id."""
    worker_id = sleeping_worker(connection, "default")
    connection.execute(
        "UPDATE orchestrator.workers SET is_leader = true, term = 7, leader_until = now() + interval '1 hour'"
    )
    connection.execute("SELECT orchestrator.hold_after_restore()")
    return put(connection, "claimed", worker_id=worker_id)


def test_resume_shows_its_effects_and_asks(
    database_url: str, connection: psycopg.Connection, copy: int
) -> None:
    """A no changes nothing. A yes resumes, and the command shows what it has done."""
    with at_terminal("resume", "--after-restore", url=database_url, cwd=Path.cwd()) as no:
        no.shows("Resume? [y/N]")
        no.types("n\n")
        assert (130, False) == (no.ends(), value(connection, AT_HOME))

    with at_terminal("resume", "--after-restore", url=database_url, cwd=Path.cwd()) as yes:
        yes.shows("Resume? [y/N]")
        yes.types("y\n")
        code = yes.ends()

    assert (0, True) == (code, value(connection, AT_HOME))
    for line in (
        "are a copy: they were at home in database ",
        "give back 1 claimed tasks, no attempt counted",
        "give back 0 running tasks, which run again",
        "declare 1 workers dead, the leader among them (host, pid 1)",
        "let workers run these, 0 pending tasks, and 0 scheduled ones when they are due",
        "Make sure first that no worker runs the same tasks in the original.",
        "resumed: 1 claimed and 0 running tasks were given back, 1 workers declared dead; workers may start",
    ):
        assert line in yes.shown
    assert ("pending", 0) == read(connection, copy, "status", "attempt")


def test_a_script_needs_yes(database_url: str, connection: psycopg.Connection, copy: int) -> None:
    """Without a terminal there can be no question, and nothing is done."""
    silent = run("resume", "--after-restore", url=database_url, given="y\n")
    before = value(connection, AT_HOME)
    yes = run("resume", "--after-restore", "--yes", "--reason", "a drill", url=database_url)

    assert (2, False, 0, True) == (silent.returncode, before, yes.returncode, value(connection, AT_HOME))
    assert "there is no terminal to ask at; add --yes" in silent.stderr
    reason = "SELECT reason FROM orchestrator.audit WHERE action = 'resume_after_restore'"
    assert "a drill" == value(connection, reason)


def test_at_home_there_is_nothing_to_do(database_url: str, connection: psycopg.Connection) -> None:
    """It is no error, so that a runbook may run twice. Live leases stay."""
    task_id = put(connection, "running", worker_id=sleeping_worker(connection, "default"))

    done = run("resume", "--after-restore", url=database_url)

    assert (0, "running") == (done.returncode, read(connection, task_id, "status"))
    assert done.stdout.startswith("nothing to do: the tasks in ")
    assert "run SELECT orchestrator.hold_after_restore() first" in done.stdout


def test_the_option_after_restore_is_required(database_url: str) -> None:
    """Later there will be other things to resume."""
    done = run("resume", "--yes", url=database_url)

    assert (2, True) == (done.returncode, "say after what: --after-restore" in done.stderr)


def test_without_tables_there_is_nothing_to_resume(empty_database_url: str) -> None:
    """The sentence says what to run."""
    done = run("resume", "--after-restore", "--yes", url=empty_database_url)

    assert (1, "") == (done.returncode, done.stdout)
    assert "error: this database has no orchestrator schema yet; run `orchestrator migrate`\n" == done.stderr


@pytest.mark.parametrize(("role", "code"), [("operator", 0), ("reader", 1), ("worker", 1)])
def test_an_operator_may_resume_and_a_worker_may_not(
    database_url: str, connection: psycopg.Connection, copy: int, role: str, code: int
) -> None:
    """A worker must not resume its own database."""
    url = make_conninfo(database_url, options=f"-c role=orchestrator_{role}")

    done = run("resume", "--after-restore", "--yes", url=url)

    assert (code, code == 0) == (done.returncode, value(connection, AT_HOME)), done.stderr
    assert "Traceback" not in done.stderr
    assert (code == 1) == ("a role needs orchestrator_operator" in done.stderr)
