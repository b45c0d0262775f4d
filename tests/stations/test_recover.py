"""Recovering: the tasks of dead workers are given back, each once, and a loss is charged only if the task had begun."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import psycopg
import pytest

from orchestrator.maintain import Recovered, Recovery, recover
from orchestrator.postgres.session import SETTINGS
from orchestrator.task.outcome import Completed, Failed, Fault
from tests.clock import Clock
from tests.schema.rows import one, put, read
from tests.stations.rows import attempts, changes, row
from tests.stations.worker import Mate

BATCH_SIZE = 1000


def rescue(connection: psycopg.Connection, *, spares_after_restart: bool = False) -> Recovered:
    """Do one round on a session with a worker's settings."""
    connection.execute(SETTINGS)
    return recover(connection, spares_after_restart=spares_after_restart)


def rescue_after_restart(
    connection: psycopg.Connection, worker: Mate, *, dead_after_seconds: float
) -> Recovered:
    """Set this for the worker, and do one round on a server that may have just come back."""
    connection.execute(
        "UPDATE orchestrator.workers SET dead_after = make_interval(secs => %s) WHERE id = %s",
        [dead_after_seconds, worker.id],
    )
    return rescue(connection, spares_after_restart=True)


def lost(worker: Mate) -> dict[str, str]:
    """The error that names a lost worker."""
    message = f"worker {worker.id} ({worker.host}, pid {worker.pid}) was gone while it ran this"
    return {"class": "WorkerLost", "message": message, "traceback": ""}


def test_a_task_that_had_not_begun_comes_back_uncharged(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """In its old place, with a note about the incident; no loss is counted."""
    task_id = put(connection, attempt=1)
    before = row(connection, task_id)
    worker.claim()
    claimed_at = clock.now
    clock.advance(seconds=31)

    assert Recovered(returned=1, dead_lettered=0, workers=1) == rescue(connection)

    message = f"worker {worker.id} ({worker.host}, pid {worker.pid}) was gone before this was seen to start"
    doubt = {"class": "WorkerLost", "message": message, "traceback": ""}
    assert {"claimed_at": claimed_at, "error": doubt} == changes(before, row(connection, task_id))
    assert [] == attempts(connection, task_id)


def test_the_last_attempt_is_not_used_up_before_it_has_begun(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """And a suspect does not become a dead letter by the death of a third worker that had not begun it."""
    last = put(connection, attempt=0, max_attempts=1)
    suspect = put(connection, attempt=2, losses=2)
    worker.claim()
    clock.advance(seconds=31)

    assert Recovered(returned=2, dead_lettered=0, workers=1) == rescue(connection)

    assert ("pending", 0, 0) == read(connection, last, "status", "attempt", "losses")
    assert ("pending", 2, 2) == read(connection, suspect, "status", "attempt", "losses")


def test_no_worker_is_late_on_a_server_that_has_just_come_back(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """During the downtime no worker could beat. A worker that still does not beat after that time is dead."""
    put(connection)
    worker.take_one()
    up_seconds = one(
        connection, "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8"
    )
    clock.advance(seconds=up_seconds + 700)

    just_back = rescue_after_restart(connection, worker, dead_after_seconds=up_seconds + 600)
    back_for_long = rescue_after_restart(connection, worker, dead_after_seconds=up_seconds / 2)

    assert Recovered(returned=0, dead_lettered=0, workers=0) == just_back
    assert Recovered(returned=1, dead_lettered=0, workers=1) == back_for_long


def test_a_beacon_does_not_save_a_worker_that_has_not_beaten_for_long(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """After a long outage all beacons are lost. A worker that does not beat while it is watched is dead."""
    put(connection)
    worker.take_one()
    (beat_at,) = connection.execute(
        "UPDATE orchestrator.workers SET beacon = 4711 WHERE id = %s RETURNING beat_at", [worker.id]
    ).fetchone() or (None,)
    clock.advance(seconds=31)
    gone = [(worker.id, beat_at)]

    assert Recovered(returned=0, dead_lettered=0, workers=0) == recover(connection, gone=gone, watched=[])
    assert Recovered(returned=1, dead_lettered=0, workers=1) == recover(connection, gone=gone, watched=gone)


def test_a_task_that_had_begun_counts_a_loss(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """It runs again, and its attempt is charged. Task and attempts name the worker, its host and its pid."""
    put(connection)
    task = worker.take_one()
    before = row(connection, task.id)
    clock.advance(seconds=31)

    assert Recovered(returned=1, dead_lettered=0, workers=1) == rescue(connection)

    back = {"status": "pending", "losses": 1, "error": lost(worker), "lease": None, "worker_id": None}
    assert back == changes(before, row(connection, task.id))
    (record,) = attempts(connection, task.id)
    expected = {"attempt": 1, "outcome": "lost", "error": lost(worker), "lease": task.lease}
    expected |= {"worker_id": worker.id, "started_at": before["started_at"], "finished_at": clock.now}
    assert expected == {column: record[column] for column in expected}


@pytest.mark.parametrize("max_attempts", [1, 4])
def test_a_task_that_was_lost_in_its_last_attempt_has_one_more(
    connection: psycopg.Connection, worker: Mate, hire: Callable[[], Mate], clock: Clock, max_attempts: int
) -> None:
    """Another task may have killed the worker, and that makes no dead letter."""
    task_id = put(connection, attempt=max_attempts - 1, max_attempts=max_attempts)
    worker.take_one()
    clock.advance(seconds=31)

    assert Recovered(returned=1, dead_lettered=0, workers=1) == rescue(connection)

    again = hire().take_one()
    assert (task_id, max_attempts, 1) == (again.id, again.attempt, again.losses)
    assert [(max_attempts, "lost")] == [(a["attempt"], a["outcome"]) for a in attempts(connection, task_id)]


def test_the_third_loss_alone_makes_a_dead_letter(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """The fifth loss in all, with any attempts left: a dead letter that names the last worker."""
    put(connection, losses=4, max_attempts=100)
    task = worker.take_one()
    before = row(connection, task.id)
    clock.advance(seconds=31)

    assert Recovered(returned=0, dead_lettered=1, workers=1) == rescue(connection)

    dead = {
        "status": "dead_letter",
        "finished_at": clock.now,
        "losses": task.losses + 1,
        "error": lost(worker),
    }
    assert dead == changes(before, row(connection, task.id))
    assert ["lost"] == [record["outcome"] for record in attempts(connection, task.id)]


def test_a_task_survives_four_losses(
    connection: psycopg.Connection, hire: Callable[[], Mate], clock: Clock
) -> None:
    """Two beside others, and two alone, because workers may be killed at random. The fifth makes a dead letter, with
    all on record."""
    task_id = put(connection, max_attempts=100)
    statuses = []
    for _ in range(5):
        hire().take_one()
        clock.advance(seconds=31)
        rescue(connection)
        statuses.append(read(connection, task_id, "status"))

    assert ["pending"] * 4 + ["dead_letter"] == statuses
    assert 5 == len({record["worker_id"] for record in attempts(connection, task_id)})


def test_a_task_that_kills_workers_names_each_once(
    connection: psycopg.Connection, hire: Callable[[], Mate], clock: Clock
) -> None:
    """The last one first, then the others in order; also after a requeue, when it kills as many again."""
    task_id = put(connection, max_attempts=100)
    killed = []
    for n in range(10):
        if n == 5:
            connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [task_id])
        killed.append(hire())
        killed[-1].take_one()
        clock.advance(seconds=31)
        rescue(connection)

    assert "dead_letter" == read(connection, task_id, "status")
    message = read(connection, task_id, "error")["message"]
    *others, last = (lost(worker)["message"] for worker in killed)
    assert f"{last}; before it: {'; '.join(others)}" == message


def test_live_workers_are_left_alone(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """Not a moment before the limit."""
    put(connection)
    task = worker.take_one()
    connection.execute("UPDATE orchestrator.workers SET beat_at = orchestrator.clock()")
    clock.advance(seconds=30)

    assert Recovered(returned=0, dead_lettered=0, workers=0) == rescue(connection)

    assert "running" == read(connection, task.id, "status")
    assert "running" == one(connection, "SELECT state FROM orchestrator.workers")


def test_each_worker_has_its_own_dead_after(
    connection: psycopg.Connection, hire: Callable[[], Mate], clock: Clock
) -> None:
    """The leader's value does not matter: after five minutes of silence one worker is dead and the other is alive."""
    short, long = hire(), hire()
    for mate, minutes in ((short, 4), (long, 6)):
        put(connection)
        mate.take_one()
        connection.execute(
            "UPDATE orchestrator.workers SET dead_after = make_interval(mins => %s), beat_at = orchestrator.clock()"
            " WHERE id = %s",
            [minutes, mate.id],
        )
    clock.advance(seconds=300)
    alive = connection.execute("SELECT id FROM orchestrator.live_workers").fetchall()

    assert Recovered(returned=1, dead_lettered=0, workers=1) == rescue(connection)

    assert [(long.id,)] == alive
    assert [("dead", short.id), ("running", long.id)] == connection.execute(
        "SELECT state, id FROM orchestrator.workers ORDER BY state"
    ).fetchall()


def test_a_worker_is_watched_by_its_own_dead_after(
    connection: psycopg.Connection, hire: Callable[[], Mate], clock: Clock
) -> None:
    """When it is late for the first time, a worker with a beat every few minutes gets minutes to beat."""
    hasty, slow = hire(), hire()
    for mate, seconds in ((hasty, 0.001), (slow, 900)):
        connection.execute(
            "UPDATE orchestrator.workers SET dead_after = make_interval(secs => %s) WHERE id = %s",
            [seconds, mate.id],
        )
    clock.advance(seconds=3600)
    recovery = Recovery(spares_after_restart=False)

    # Ends: the hasty one is watched for less than a millisecond.
    while not recovery.is_worth(connection):
        pass
    recovery(connection)

    assert [("dead", hasty.id), ("running", slow.id)] == connection.execute(
        "SELECT state, id FROM orchestrator.workers ORDER BY state"
    ).fetchall()


def test_a_worker_that_beats_at_this_moment_is_left_alone(
    connection: psycopg.Connection, database_url: str, worker: Mate, clock: Clock
) -> None:
    """The beat has locked its row. A recovery that waited for the lock would use an old time."""
    put(connection)
    task = worker.take_one()
    clock.advance(seconds=31)
    with psycopg.connect(database_url) as beat:
        beat.execute(
            "UPDATE orchestrator.workers SET beat_at = orchestrator.clock() WHERE id = %s", [worker.id]
        )
        assert Recovered(returned=0, dead_lettered=0, workers=0) == rescue(connection)

    assert Recovered(returned=0, dead_lettered=0, workers=0) == rescue(connection)
    assert "running" == read(connection, task.id, "status")


def test_a_worker_without_a_row_is_dead(connection: psycopg.Connection, worker: Mate) -> None:
    """The row is written before the first claim, so another session has deleted it. The tasks are not forgotten."""
    put(connection)
    put(connection)
    tasks = worker.claim()
    worker.begin(tasks[:1])
    connection.execute("DELETE FROM orchestrator.workers")

    assert Recovered(returned=2, dead_lettered=0, workers=0) == rescue(connection)

    assert [1, 0] == [read(connection, task.id, "losses") for task in tasks]
    message = read(connection, tasks[0].id, "error ->> 'message'")
    assert f"worker {worker.id} (?, pid 0) was gone while it ran this" == message


def test_a_claim_of_a_worker_after_its_death_is_taken_back_too(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """A claim that was under way at the declaration of death does not keep its tasks for ever."""
    put(connection)
    task = worker.take_one()
    connection.execute("UPDATE orchestrator.workers SET state = 'dead'")
    clock.advance(seconds=31)

    assert Recovered(returned=1, dead_lettered=0, workers=0) == rescue(connection)
    assert "pending" == read(connection, task.id, "status")


def test_a_locked_orphan_waits_for_the_next_round(
    connection: psycopg.Connection, database_url: str, worker: Mate, clock: Clock
) -> None:
    """A session with an open row delays the recovery of no other task, and its task is not forgotten."""
    put(connection)
    put(connection)
    locked, free = worker.begin(worker.claim())
    clock.advance(seconds=31)
    with psycopg.connect(database_url) as operator:
        operator.execute("SELECT FROM orchestrator.tasks WHERE id = %s FOR UPDATE", [locked.id])
        assert Recovered(returned=1, dead_lettered=0, workers=1) == rescue(connection)
        assert ["running", "pending"] == [read(connection, task.id, "status") for task in (locked, free)]

    assert Recovered(returned=1, dead_lettered=0, workers=0) == rescue(connection)
    assert "pending" == read(connection, locked.id, "status")


def test_a_round_is_bounded(connection: psycopg.Connection, hire: Callable[[], Mate], clock: Clock) -> None:
    """With any number of orphans, one round takes a batch and returns that there may be more."""
    mates = [hire() for _ in range(3)]
    for worker in mates:
        hold(connection, worker, 500)
    clock.advance(seconds=31)

    rounds = [rescue(connection) for _ in range(3)]

    assert [BATCH_SIZE, 500, 0] == [each.returned for each in rounds]
    assert [True, False, False] == [each.may_be_more for each in rounds]
    assert 1500 == one(connection, "SELECT count(*) FROM orchestrator.tasks_live WHERE status = 'pending'")


def test_concurrent_recoveries_equal_one(
    connection: psycopg.Connection, database_url: str, hire: Callable[[], Mate], clock: Clock
) -> None:
    """Each task is given back once, and each loss is counted once."""
    for _ in range(6):
        hold(connection, hire(), 200)
    clock.advance(seconds=31)

    with ThreadPoolExecutor(4) as pool:
        rounds = list(chain.from_iterable(pool.map(rescue_all, [database_url] * 4)))

    assert 1200 == sum(each.returned for each in rounds)
    assert 6 == sum(each.workers for each in rounds)
    assert 1200 == one(
        connection, "SELECT count(*) FROM orchestrator.tasks_live WHERE status = 'pending' AND losses = 1"
    )
    assert 1200 == one(connection, "SELECT count(DISTINCT task_id) FROM orchestrator.attempts")


def rescue_all(database_url: str) -> list[Recovered]:
    """Recover until nothing is left; ends with the tasks, because a locked one is being recovered."""
    rounds = []
    with psycopg.connect(database_url, autocommit=True) as connection:
        while one(
            connection, "SELECT EXISTS (SELECT FROM orchestrator.tasks_live WHERE worker_id IS NOT NULL)"
        ):
            rounds.append(rescue(connection))
    return rounds


def test_a_late_outcome_of_a_dead_worker_is_stale(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """It changes nothing, and does not count as written before: the record of the loss belongs to no outcome."""
    put(connection)
    task = worker.take_one()
    clock.advance(seconds=31)
    rescue(connection)
    before = row(connection, task.id)

    for end in (Completed(None), Failed(Fault("ValueError", ""), "failed", 1)):
        assert not worker.finish(task, end)
        assert not worker.has_written(task, end)

    assert before == row(connection, task.id)


def test_a_late_outcome_of_a_dead_letter_is_stale(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """The dead letter keeps the lease, but the outcome is not the one that made it a dead letter."""
    put(connection, max_attempts=1)
    task = worker.take_one()
    clock.advance(seconds=31)
    rescue(connection)

    assert not worker.finish(task, Completed(None))
    assert not worker.has_written(task, Completed(None))


def test_a_recovery_is_planned_each_time(connection: psycopg.Connection) -> None:
    """A plan for empty tables would be kept, and would scan them at every beat of every worker."""
    for _ in range(10):
        rescue(connection)

    names = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    assert not [statement for (statement,) in names if "orphan" in statement]


def test_recovered_tasks_wake_idle_workers(
    connection: psycopg.Connection, worker: Mate, hire: Callable[[], Mate], clock: Clock
) -> None:
    """No ready task waits for a poll."""
    put(connection)
    worker.take_one()
    connection.execute("LISTEN orchestrator")
    clock.advance(seconds=31)
    sleeper = hire()
    connection.execute(
        "UPDATE orchestrator.workers SET idle_until = orchestrator.clock() + interval '5 s' WHERE id = %s",
        [sleeper.id],
    )

    rescue(connection)

    assert ["default"] == [note.payload for note in connection.notifies(timeout=5, stop_after=1)]


def hold(connection: psycopg.Connection, worker: Mate, count: int) -> None:
    """Let a worker run this number of tasks."""
    connection.execute(
        "INSERT INTO orchestrator.tasks (id, type, queue, priority, max_attempts, timeout, aging_us, run_at, status,"
        " attempt, lease, worker_id, claimed_at, started_at)"
        " SELECT nextval('orchestrator.tasks_id_seq'),"
        " 'mail', 'default', 50, 4, '5 minutes', 0, now(), 'running', 1, n, %s, now(), now()"
        " FROM generate_series(1, %s) AS n",
        [worker.id, count],
    )


def test_a_stopped_worker_that_still_holds_tasks_is_recovered(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """A claim in progress when the connection closed may commit after the row said `stopped`."""
    task_id = put(connection)
    worker.claim()
    connection.execute("UPDATE orchestrator.workers SET state = 'stopped' WHERE id = %s", [worker.id])
    clock.advance(seconds=31)

    assert Recovered(returned=1, dead_lettered=0, workers=1) == rescue(connection)

    assert ("pending", 0) == read(connection, task_id, "status", "attempt")
