"""Processes that end with a status of success, and have not stopped: os._exit(0) in a handler or in the application."""

import signal
from pathlib import Path

import psycopg
import pytest

from tests.patience import eventually
from tests.tiers import long
from tests.worker.processes import run, worker
from tests.worker.running import attempts, status, task, value
from tests.worker.test_broken_processes import enqueue
from tests.worker.test_parent import children, serving
from tests.worker.test_processes import DOOR, door, open_to_all

APP = "tests.worker.breaking:app"


# Three losses alone, after two beside others, make a dead letter. One is given back of the last attempt.
ALL_LOSSES = [(n, "lost") for n in (1, 2, 3, 4, 4)]


@pytest.mark.parametrize(
    ("kind", "code", "losses"),
    [("exit", 0, 1), long("exit_in_thread", 75, 5), long("exit", 75, 5), long("exit_in_thread", 0, 5)],
)
def test_a_child_that_ends_without_announcing_it_is_replaced(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, kind: str, code: int, losses: int
) -> None:
    """At any status: a handler called os._exit. The other place does not change, and the task is a loss."""
    with worker(database_url, tmp_path / "log", "-p", "2", app=APP) as parent:
        eventually(lambda: serving(connection) == 2, "both serve")
        task_id = enqueue(connection, kind, code=code)
        if losses == 1:
            eventually(lambda: status(connection, task_id) not in ("pending", "claimed"), "it runs")
            value(connection, "SELECT orchestrator.pause_queue('default')")
        # On a busy machine the pause may come too late.
        last = ("pending", "dead_letter") if losses == 1 else ("dead_letter",)
        eventually(lambda: status(connection, task_id) in last, "its last attempt is lost")
        eventually(lambda: serving(connection) == 2, "both places are taken again")
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait(), parent.log

    lines = parent.events()
    died = [line for line in lines if line["event"] == "child died"]
    assert {f"exit code {code}, without a clean stop"} == {line["how"] for line in died}
    assert all(line["restart_after_seconds"] > 0 for line in died)
    assert 2 == len([line for line in lines if line["event"] == "child ended"])
    assert 2 + len(died) == len(children(parent))
    recorded = attempts(connection, task_id)
    assert ALL_LOSSES[: len(recorded)] == recorded
    assert losses <= len(recorded)


def test_a_worker_that_a_handler_ends_with_success_has_lost_its_tasks(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Without a parent the status stays 0. The loss is on record, and the task runs again."""
    task_id = enqueue(connection, "exit_once", door=DOOR)
    with door(database_url) as keeper, worker(database_url, tmp_path / "first.log", app=APP) as first:
        eventually(lambda: status(connection, task_id) == "running", "it runs")
        open_to_all(keeper)
        assert 0 == first.wait(), first.log
    with worker(database_url, tmp_path / "second.log", "--until-empty", app=APP) as second:
        assert 0 == second.wait(), second.log

    assert not first.has_logged("worker stopped")
    assert ("completed", 2, [(1, "lost")]) == (
        status(connection, task_id), task(connection, task_id).result, attempts(connection, task_id),
    )  # fmt: skip


def test_an_application_that_ends_the_process_with_success_is_a_failure(
    database_url: str, tmp_path: Path
) -> None:
    """The first child never served, and gave no reason: the parent ends with 1, not with the child's 0."""
    done = run("worker", "tests.worker.exiting:app", "-p", "2", url=database_url)

    assert (1, 1) == (done.returncode, done.stderr.count('"child died"')), done.stderr
    assert "exit code 0, without a clean stop" in done.stderr
