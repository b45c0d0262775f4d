"""Workers with a feature are killed: their permits come back, and no limit is exceeded."""

from contextlib import ExitStack
from pathlib import Path

import psycopg

from tests.feature import child
from tests.feature.conftest import LANE, LIMIT, OTHER
from tests.feature.lane_limits import NAME
from tests.patience import eventually
from tests.worker.processes import Process
from tests.worker.running import statuses, value

DOOR = 4711
TASKS = 5


def test_a_killed_worker_loses_no_permit(
    limited: psycopg.Connection, database_url: str, tmp_path: Path
) -> None:
    """Three workers run tasks of two lanes, and hold all permits, when all of them are killed at once."""
    connection = limited
    connection.execute("SELECT pg_advisory_lock(%s)", [DOOR])
    connection.execute(
        "SELECT orchestrator.enqueue('shop.knock', jsonb_build_object('door', %s::int), max_attempts => 20,"
        " metadata => jsonb_build_object('lane', lane)) FROM generate_series(1, %s), unnest(%s::int[]) AS lane",
        [DOOR, TASKS, [LANE, OTHER]],
    )

    workers: list[Process] = []
    with ExitStack() as hired:

        def hire(name: str) -> Process:
            process = child.worker(database_url, tmp_path / name, "-c", "2")
            workers.append(hired.enter_context(process))
            return workers[-1]

        for n in range(3):
            hire(f"first {n}")
        eventually(lambda: running(connection) == 2 * LIMIT, "both limits are used up")
        for each in workers:
            each.kill()
        successors = [hire(f"second {n}") for n in range(2)]
        eventually(lambda: losses(connection) == 2 * LIMIT, "what they ran is taken back")
        eventually(lambda: running(connection) == 2 * LIMIT, "both limits are used up again")
        connection.execute("SELECT pg_advisory_unlock(%s)", [DOOR])
        eventually(lambda: statuses(connection) == {"completed": 2 * TASKS}, "all have run")
        eventually(lambda: taken(connection) == 0, "every permit is back")
        # A beat that meets a lock fails, too, and is repeated.
        failed = [line for each in successors for line in failures(each) if NAME in line]

    assert [] == failed
    assert 0 == value(connection, "SELECT count(*) FROM lane_limits.above")
    assert 2 * (TASKS + LIMIT) <= value(connection, "SELECT sum(permits) FROM lane_limits.returned")


def failures(process: Process) -> list[str]:
    """The lines of its log about duties that failed."""
    return [line for line in process.log.splitlines() if '"event": "duty failed"' in line]


def running(connection: psycopg.Connection) -> int:
    """How many tasks run."""
    return int(value(connection, "SELECT count(*) FROM orchestrator.tasks_live WHERE status = 'running'"))


def losses(connection: psycopg.Connection) -> int:
    """How many executions are on record as lost with their workers."""
    return int(value(connection, "SELECT count(*) FROM orchestrator.attempts WHERE outcome = 'lost'"))


def taken(connection: psycopg.Connection) -> int:
    """How many permits are out."""
    return int(value(connection, "SELECT sum(running) FROM lane_limits.limits"))
