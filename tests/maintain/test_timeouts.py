"""Timeouts that no worker enforced: the leader ends the attempt, and a later outcome of its worker is stale."""

from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from orchestrator import events
from orchestrator.maintain import timeouts
from orchestrator.task.outcome import Completed
from tests.clock import Clock
from tests.maintain.rounds import do, do_at_once
from tests.schema.rows import one, put, read
from tests.stations.rows import attempts, changes, row
from tests.stations.worker import Mate

TIMEOUT_SECONDS = 300
MARGIN_SECONDS = 15
FAULT = {
    "class": "Timeout",
    "message": "no result within 300 s, and its worker did not end it",
    "traceback": "",
}


def declare(connection: psycopg.Connection, base: str, factor: float, cap: str, jitter: float) -> None:
    connection.execute(
        "INSERT INTO orchestrator.types (name, backoff_base, backoff_factor, backoff_cap, backoff_jitter)"
        " VALUES ('mail', %s, %s, %s, %s)",
        [base, factor, cap, jitter],
    )


def go_on(connection: psycopg.Connection, clock: Clock, seconds: float) -> None:
    """Advance the clock; every worker beats at the end."""
    clock.advance(seconds=seconds)
    connection.execute("UPDATE orchestrator.workers SET beat_at = orchestrator.clock()")


def test_an_attempt_that_its_worker_did_not_end_fails_and_is_retried(
    connection: psycopg.Connection, worker: Mate, clock: Clock, heard: list[events.Event]
) -> None:
    """Fenced off, on record, with the delay that its type's policy gives after a second failure."""
    declare(connection, "10 s", 3, "1 hour", 0)
    put(connection, attempt=1)
    task = worker.take_one()
    before = row(connection, task.id)
    go_on(connection, clock, TIMEOUT_SECONDS + MARGIN_SECONDS + 1)

    assert not do(connection, timeouts)

    back = {"status": "scheduled", "run_at": clock.now + timedelta(seconds=30), "error": FAULT}
    back |= {"lease": None, "worker_id": None}
    assert back == changes(before, row(connection, task.id))
    (record,) = attempts(connection, task.id)
    expected = {"attempt": 2, "outcome": "timeout", "error": FAULT, "worker_id": worker.id}
    expected |= {"started_at": before["started_at"], "finished_at": clock.now}
    assert expected == {column: record[column] for column in expected}
    assert [events.TimeoutsEnforced(retried=1, dead_lettered=0)] == heard


def test_the_last_attempt_makes_a_dead_letter(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """The dead letter has the error."""
    put(connection, attempt=3)
    task = worker.take_one()
    before = row(connection, task.id)
    go_on(connection, clock, TIMEOUT_SECONDS + MARGIN_SECONDS + 1)

    do(connection, timeouts)

    dead = {"status": "dead_letter", "finished_at": clock.now, "error": FAULT, "lease": None}
    assert dead == changes(before, row(connection, task.id))
    assert ["timeout"] == [record["outcome"] for record in attempts(connection, task.id)]


@pytest.mark.parametrize("attempt", [0, 3], ids=["retried", "dead_lettered"])
def test_a_later_outcome_of_its_worker_is_stale(
    connection: psycopg.Connection, worker: Mate, clock: Clock, attempt: int
) -> None:
    """It changes nothing, and the record of the timeout does not count as the worker's own."""
    put(connection, attempt=attempt)
    task = worker.take_one()
    go_on(connection, clock, TIMEOUT_SECONDS + MARGIN_SECONDS + 1)
    do(connection, timeouts)
    before = row(connection, task.id)

    assert not worker.finish(task, Completed(None))
    assert not worker.has_written(task, Completed(None))
    assert before == row(connection, task.id)


@pytest.mark.parametrize(
    ("columns", "seconds"),
    [
        ({"timeout": timedelta(0)}, 10**9),
        ({}, TIMEOUT_SECONDS + MARGIN_SECONDS),
        ({"timeout": timedelta(days=36500)}, 10**6),
    ],
    ids=["no timeout", "within the margin", "a century"],
)
def test_an_attempt_in_time_is_left_alone(
    connection: psycopg.Connection, worker: Mate, clock: Clock, columns: dict[str, Any], seconds: float
) -> None:
    """A timeout of 0 is no timeout, and the worker has its margin."""
    put(connection, **columns)
    task = worker.take_one()
    before = row(connection, task.id)
    go_on(connection, clock, seconds)

    do(connection, timeouts)

    assert before == row(connection, task.id)
    assert [] == attempts(connection, task.id)


def test_a_worker_that_could_not_reach_the_database_keeps_its_outcome(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """Its task may have ended in time, without a way to report it. A worker that does not come back is recovered."""
    put(connection)
    task = worker.take_one()
    go_on(connection, clock, TIMEOUT_SECONDS + MARGIN_SECONDS)
    clock.advance(seconds=14)
    left = do(connection, timeouts), read(connection, task.id, "status")

    assert (False, "running") == left
    assert worker.finish(task, Completed(None))


def test_an_attempt_that_has_not_begun_has_no_timeout(connection: psycopg.Connection, clock: Clock) -> None:
    """Also if its row still has values of the attempt before."""
    task_id = put(connection, "claimed", started_at=clock.now)
    before = row(connection, task_id)
    go_on(connection, clock, 10**6)

    do(connection, timeouts)

    assert before == row(connection, task_id)
    assert [] == attempts(connection, task_id)


@pytest.mark.parametrize(
    ("policy", "attempt", "least", "most"),
    [
        (None, 0, 0.9, 1.1),
        (None, 2, 3.6, 4.4),
        (None, 30_000, 270, 330),
        (("2 s", 1000, "1 min", 0), 30_000, 60, 60),
        (("0 s", 2, "1 min", 0), 5, 0, 0),
        (("5 s", 1, "1 min", 0), 30_000, 5, 5),
    ],
    ids=["default", "third", "capped", "beyond every number", "none", "never grows"],
)
def test_the_wait_is_the_policys(
    connection: psycopg.Connection,
    worker: Mate,
    clock: Clock,
    policy: tuple[str, float, str, float] | None,
    attempt: int,
    least: float,
    most: float,
) -> None:
    """The same as a worker would have computed; the default for an undeclared type."""
    if policy:
        declare(connection, *policy)
    put(connection, attempt=attempt, max_attempts=32_000)
    task = worker.take_one()
    go_on(connection, clock, TIMEOUT_SECONDS + MARGIN_SECONDS + 1)

    do(connection, timeouts)

    status, run_at = read(connection, task.id, "status", "run_at")
    assert least <= (run_at - clock.now).total_seconds() <= most
    assert ("scheduled" if most else "pending") == status


def run_late(connection: psycopg.Connection, worker: Mate, count: int) -> None:
    """Let a worker run this number of tasks beyond their timeout."""
    connection.execute(
        "INSERT INTO orchestrator.tasks (id, type, queue, priority, max_attempts, timeout, aging_us, run_at, status,"
        " attempt, lease, worker_id, claimed_at, started_at)"
        " SELECT nextval('orchestrator.tasks_id_seq'),"
        " 'mail', 'default', 50, 1 + n %% 2, '1 s', 0, now(), 'running', 1, n, %s, now(), now() - interval '1 h'"
        " FROM generate_series(1, %s) AS n",
        [worker.id, count],
    )


def test_a_round_is_bounded(connection: psycopg.Connection, worker: Mate) -> None:
    """It takes a batch and returns that there may be more."""
    run_late(connection, worker, 25)
    duty = partial(timeouts, batch_size=10)

    assert [True, True, False, False] == [do(connection, duty) for _ in range(4)]
    assert 25 == one(connection, "SELECT count(*) FROM orchestrator.attempts")


def test_two_leaders_at_once_are_one(connection: psycopg.Connection, database_url: str, worker: Mate) -> None:
    """Each attempt is ended once."""
    run_late(connection, worker, 400)

    do_at_once(database_url, partial(timeouts, batch_size=20))

    ended = one(connection, "SELECT ARRAY[count(*), count(DISTINCT task_id)] FROM orchestrator.attempts")
    assert [400, 400] == ended
    assert 200 == one(connection, "SELECT count(*) FROM orchestrator.tasks_dead")
    assert 200 == one(connection, "SELECT count(*) FROM orchestrator.tasks_live WHERE status = 'scheduled'")


def test_a_worker_that_is_writing_its_outcome_is_left_alone(
    connection: psycopg.Connection, database_url: str, worker: Mate, clock: Clock
) -> None:
    """Its row is locked. The round does not wait, and the others are not delayed."""
    put(connection)
    put(connection)
    locked, free = worker.begin(worker.claim())
    go_on(connection, clock, TIMEOUT_SECONDS + MARGIN_SECONDS + 1)
    with psycopg.connect(database_url) as writer:
        writer.execute("SELECT FROM orchestrator.tasks_live WHERE id = %s FOR UPDATE", [locked.id])
        do(connection, timeouts)

    assert ["running", "scheduled"] == [read(connection, task.id, "status") for task in (locked, free)]


def test_an_idle_worker_is_woken_for_the_retry(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """It cannot know of a task that becomes due while it sleeps."""
    put(connection)
    worker.take_one()
    connection.execute("LISTEN orchestrator")
    go_on(connection, clock, TIMEOUT_SECONDS + MARGIN_SECONDS + 1)
    connection.execute(
        "UPDATE orchestrator.workers SET idle_until = orchestrator.clock() + interval '60 s' WHERE id = %s",
        [worker.id],
    )

    do(connection, timeouts)

    assert ["default"] == [note.payload for note in connection.notifies(timeout=5, stop_after=1)]
