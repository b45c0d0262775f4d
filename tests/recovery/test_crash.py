"""The server crashes before a claim has reached the disk."""

import os
import signal
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TypeVar

import psycopg

from orchestrator.task.outcome import Completed, Outcome
from tests import servers
from tests.patience import eventually
from tests.stations.rows import row
from tests.stations.worker import Mate

T = TypeVar("T")
CRASHES = 3
TASKS = 20
SINCE = "SELECT orchestrator.up_since()"


def test_a_lease_that_a_crash_lost_is_never_used_again() -> None:
    """A worker claims, the server crashes, another worker claims. No task has one lease twice, and the outcome under
    the first lease is refused."""
    leases: list[tuple[int, int]] = []
    # With this delay the claim is certainly still in memory at the crash.
    with servers.private(settings={"wal_writer_delay": "10s"}) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(
                "INSERT INTO orchestrator.tasks (type) SELECT 'work' FROM generate_series(1, %s)", [TASKS]
            )
        with closing(Mate(server.url())) as before, closing(Mate(server.url())) as after:
            for _ in range(CRASHES):
                forgotten = until_connected(lambda: before.claim(batch_size=TASKS))
                server.restart("immediate")
                leases += [(task.id, task.lease) for task in forgotten]
                with psycopg.connect(server.url(), autocommit=True) as connection:
                    assert {"pending"} == {row(connection, task.id)["status"] for task in forgotten}
            again = until_connected(lambda: after.claim(batch_size=TASKS))
            leases += [(task.id, task.lease) for task in again]

            finished = [Outcome(task, Completed(None)) for task in forgotten]
            late = until_connected(lambda: before.finish_all(finished))
            written = after.finish_all([Outcome(task, Completed(None)) for task in again])

    assert (CRASHES + 1) * TASKS == len(leases) == len(set(leases))
    assert (set(), {task.id for task in again}) == (late, written)


def test_the_uptime_begins_again_when_a_backend_was_killed() -> None:
    """The server recovers without a restart, and all beacons are lost at once. The new uptime keeps workers from being
    declared dead because of that."""
    with servers.private() as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            before = connection.execute(SINCE).fetchone()
            os.kill(connection.info.backend_pid, signal.SIGKILL)
        eventually(lambda: since(server) not in (None, before), "it has recovered, and says so")

    assert before is not None


def since(server: servers.Server) -> tuple[object, ...] | None:
    """Return the start of its uptime, or None while it is down."""
    with suppress(psycopg.OperationalError), psycopg.connect(server.url(), autocommit=True) as connection:
        return connection.execute(SINCE).fetchone()
    return None


def until_connected(work: Callable[[], T]) -> T:
    """Try once on the connection that the crash has broken, then on a new one."""
    with suppress(psycopg.OperationalError):
        return work()
    return work()
