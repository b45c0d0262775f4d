"""The server restarts in the middle of a drain: what was confirmed stays, and is not run again; nothing is lost."""

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
    """A server of the test's own, with tasks to drain."""
    # What was committed without waiting for the disk is in memory until a crash, for certain.
    settings = {"wal_writer_delay": "10s"}
    with servers.private(settings=settings) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(ENQUEUE, [TASKS])
        yield server


def told(process: Process, event: str) -> list[int]:
    """Return the tasks of which it has said this, in order; the last line may not be whole yet."""
    return [line["task_id"] for line in lines(process) if line["event"] == event]


def lines(process: Process) -> list[dict[str, Any]]:
    whole = process.log.rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def has_completed(process: Process, enough: int) -> bool:
    return len(told(process, "task completed")) > enough


def done(server: servers.Server) -> set[int]:
    """Return the tasks that are completed, by the database."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        return {
            task_id for (task_id,) in connection.execute("SELECT id FROM orchestrator.tasks_done").fetchall()
        }


@pytest.mark.parametrize("mode", ["immediate", long("fast")])
def test_a_restart_in_the_middle_of_a_drain_undoes_nothing_that_was_confirmed(
    server: servers.Server, mode: servers.StopMode, tmp_path: Path
) -> None:
    """Twice. What was said to be completed is, and never starts again; what was on its way is sent again, or refused
    where the crash has forgotten the claim, and then runs again."""
    with worker(server.url(), tmp_path / "log", *LOUD) as process:
        for enough in (TASKS // 6, TASKS // 2):
            eventually(partial(has_completed, process, enough), "some are completed")
            server.stop(mode)
            confirmed = set(told(process, "task completed"))
            server.start()
            assert confirmed <= done(server)
        eventually(lambda: len(set(told(process, "task completed"))) == TASKS, "all are completed")
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
    assert mode == "immediate" or TASKS == len(told(process, "task started"))
    with psycopg.connect(server.url()) as connection:
        assert (TASKS, 0) == connection.execute(
            "SELECT count(*), (SELECT count(*) FROM orchestrator.tasks_live) FROM orchestrator.tasks_done"
        ).fetchone()
        # An execution whose claim the crash has forgotten is on record, and no other.
        lost = connection.execute("SELECT outcome FROM orchestrator.attempts").fetchall()
    assert {("lost",)} >= set(lost)
    assert TASKS + len(lost) == len(told(process, "task started"))
