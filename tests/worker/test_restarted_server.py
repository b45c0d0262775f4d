"""The server restarts while workers work off a backlog: confirmed outcomes stay, no completed task runs again, and
no task is lost."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import servers
from tests.patience import eventually
from tests.tiers import long
from tests.worker.processes import Process, worker

TASKS = 4000
ENQUEUE = "INSERT INTO orchestrator.tasks (type) SELECT 'shop.work' FROM generate_series(1, %s)"
LOUD = ("-c", "20", "--log-level", "debug")


@pytest.fixture
def server() -> Iterator[servers.Server]:
    """A server of the test's own, with tasks."""
    # What was committed without waiting for the disk is in memory until a crash, for certain.
    settings = {"wal_writer_delay": "10s"}
    with servers.private(settings=settings) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(ENQUEUE, [TASKS])
        yield server


def task_ids(process: Process, event: str) -> list[int]:
    """Return the tasks of this event in the log, in order; the last line may be incomplete."""
    return [line["task_id"] for line in lines(process) if line["event"] == event]


def lines(process: Process) -> list[dict[str, Any]]:
    whole = process.log.rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def has_completed(process: Process, enough: int) -> bool:
    return len(task_ids(process, "task completed")) > enough


def done(server: servers.Server) -> set[int]:
    """Return the tasks that are completed in the database."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        return {
            task_id for (task_id,) in connection.execute("SELECT id FROM orchestrator.tasks_done").fetchall()
        }


@pytest.mark.parametrize("mode", ["immediate", long("fast")])
def test_a_restart_under_load_undoes_no_confirmed_outcome(
    server: servers.Server, mode: servers.StopMode, tmp_path: Path
) -> None:
    """Twice. A task that was reported as completed is completed, and never starts again. An outcome in progress is
    sent again; if the crash has lost the claim, it is refused, and the task runs again."""
    with worker(server.url(), tmp_path / "log", *LOUD) as process:
        for enough in (TASKS // 6, TASKS // 2):
            eventually(partial(has_completed, process, enough), "some are completed")
            server.stop(mode)
            confirmed = set(task_ids(process, "task completed"))
            server.start()
            assert confirmed <= done(server)
        eventually(lambda: len(set(task_ids(process, "task completed"))) == TASKS, "all are completed")
        assert process.popen.poll() is None

    completed = set[int]()
    for line in lines(process):
        if line["event"] == "task completed":
            assert line["task_id"] not in completed
            completed.add(line["task_id"])
        elif line["event"] == "task started":
            assert line["task_id"] not in completed
    assert completed == done(server)
    # A server that is told to end forgets no claim: then nothing at all runs twice.
    assert mode == "immediate" or TASKS == len(task_ids(process, "task started"))
    with psycopg.connect(server.url()) as connection:
        assert (TASKS, 0) == connection.execute(
            "SELECT count(*), (SELECT count(*) FROM orchestrator.tasks_live) FROM orchestrator.tasks_done"
        ).fetchone()
        # An execution whose claim the crash has forgotten is on record, and no other.
        lost = connection.execute("SELECT outcome FROM orchestrator.attempts").fetchall()
    assert {("lost",)} >= set(lost)
    assert TASKS + len(lost) == len(task_ids(process, "task started"))
