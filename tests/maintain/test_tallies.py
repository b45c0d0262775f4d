"""Attempts that the leader ends for a worker are counted by queue and type, as the worker would count them."""

import psycopg

from orchestrator import events
from orchestrator.maintain import recover, timeouts
from orchestrator.postgres.session import SETTINGS
from orchestrator.task.buckets import EMPTY, histogram
from orchestrator.task.tally import Tally
from tests.clock import Clock
from tests.maintain.rounds import do
from tests.schema.rows import put
from tests.stations.worker import Mate


def lead(connection: psycopg.Connection, worker: Mate) -> None:
    connection.execute(
        "UPDATE orchestrator.workers SET is_leader = true, term = 1, leader_until = '8999-01-01' WHERE id = %s",
        [worker.id],
    )


def tallies(heard: list[events.Event], worker: Mate) -> list[Tally]:
    return sorted(
        (tally for event in heard if isinstance(event, events.OutcomesWritten) for tally in event.tallies
         if (worker.id, None) == (event.worker_id, event.took_seconds)),
        key=lambda tally: (tally.queue, tally.type),
    )  # fmt: skip


def test_recovered_tasks_are_counted(
    connection: psycopg.Connection, worker: Mate, clock: Clock, heard: list[events.Event]
) -> None:
    """Lost if it had begun, a dead letter if that was the last time, else given back. An undeclared name counts
    without a name."""
    connection.execute("INSERT INTO orchestrator.types (name) VALUES ('mail'), ('sort')")
    lead(connection, worker)
    put(connection, type="mail")
    put(connection, type="mail", losses=4)
    put(connection, type="sort", queue="default")
    put(connection, type="a stranger's word")
    tasks = worker.claim()
    worker.begin([task for task in tasks if task.type == "mail"])
    clock.advance(seconds=31)

    connection.execute(SETTINGS)
    recover(connection)

    assert [
        Tally("default", "(unknown)", {"released": 1}),
        Tally("default", "mail", {"lost": 1, "dead_lettered": 1}),
        Tally("default", "sort", {"released": 1}),
    ] == tallies(heard, worker)


def test_enforced_timeouts_are_counted_and_timed(
    connection: psycopg.Connection, worker: Mate, clock: Clock, heard: list[events.Event]
) -> None:
    """With their waiting times and running times."""
    lead(connection, worker)
    put(connection, run_at=clock.now)
    put(connection, run_at=clock.now, attempt=3)
    clock.advance(seconds=10)
    worker.begin(worker.claim())
    clock.advance(seconds=400)
    connection.execute("UPDATE orchestrator.workers SET beat_at = orchestrator.clock()")

    do(connection, timeouts)

    wait, run, total = (histogram([seconds] * 2) for seconds in (10.0, 400.0, 410.0))
    assert [Tally("default", "mail", {"timed_out": 1, "dead_lettered": 1}, wait, run, total)] == tallies(
        heard, worker
    )


def test_without_a_leader_no_event_is_emitted(
    connection: psycopg.Connection, worker: Mate, clock: Clock, heard: list[events.Event]
) -> None:
    """For a duty that is called directly."""
    put(connection)
    worker.claim()
    clock.advance(seconds=31)
    recover(connection)

    assert ([], EMPTY) == (tallies(heard, worker), histogram([]))
