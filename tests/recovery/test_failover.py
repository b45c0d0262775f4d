"""The primary dies, or is no longer a primary, and its standby takes over."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from orchestrator.config import Config
from orchestrator.maintain.recover import Recovery, recover
from orchestrator.worker.beat_report import ask
from tests.patience import eventually
from tests.recovery import failover
from tests.recovery.environment import Environment, environment, logged
from tests.recovery.failover import ClosableUrl, Pair, Producer, order
from tests.standby import position
from tests.worker.running import value

ORDERS = 150
OLD_SECONDS = 5.0
SETTINGS = {
    "ORCHESTRATOR_POLL_SECONDS": "0.2",
    "ORCHESTRATOR_HEARTBEAT_SECONDS": "0.5",
    # The promotion of a standby takes some time on a busy machine.
    "ORCHESTRATOR_DEAD_AFTER_SECONDS": "30",
    "ORCHESTRATOR_TERM_SECONDS": "3",
}


@pytest.fixture
def both() -> Iterator[Pair]:
    """A primary and its standby."""
    with failover.pair() as pair:
        yield pair


@pytest.fixture
def here(both: Pair, tmp_path: Path) -> Iterator[Environment]:
    """Workers on the server that accepts writes."""
    with environment(both.url, tmp_path, SETTINGS) as made:
        yield made


def test_a_failover_to_a_synchronous_standby_loses_nothing(both: Pair, here: Environment) -> None:
    """Every acknowledged task is there, and runs once. The workers find the new primary by themselves."""
    both.make_synchronous()
    with Producer(both.url) as producer:
        workers = [here.hire() for _ in range(2)]
        here.until(lambda: producer.reached(ORDERS), "there are orders")
        both.fail_over()
        before = len(producer.acknowledged)
        here.until(lambda: producer.reached(before + ORDERS), "there are more orders")
    here.until(lambda: failover.is_drained(here), "all is done")

    assert set() == producer.acknowledged - failover.orders(here)
    assert failover.orders(here) <= producer.acknowledged | producer.in_doubt
    assert sorted(failover.orders(here)) == failover.tasks(here) == failover.entries(here)
    assert [("running",)] * 2 == here.ask("SELECT state FROM orchestrator.workers"), here.logs()
    assert [None, None] == [process.popen.poll() for process in workers]


@pytest.mark.long
def test_a_failover_to_an_asynchronous_standby_loses_only_what_postgres_loses(
    both: Pair, here: Environment, tmp_path: Path
) -> None:
    """The same orders and tasks are lost; the remaining tasks run once. An outcome from before the failover is refused:
    another task has the number of its task now."""
    door = tmp_path / "door"
    with ClosableUrl(both) as way:
        worker = here.hire("-q", "default,stubborn", url=way.url)
        with psycopg.connect(both.primary.url(), autocommit=True) as connection:
            kept, lost = ([f"{what}-{n}" for n in range(ORDERS)] for what in ("kept", "lost"))
            for key in kept:
                order(connection, key)
            both.standby.wait_for(position(both.primary))
            both.line.shut()
            for key in lost:
                order(connection, key)
        (late,) = here.enqueue("drill.stubborn", queue="stubborn", door=str(door))
        here.until(lambda: here.are([late], "running"), "it runs")
        here.until(lambda: set(lost) <= set(failover.entries(here)), "what will be lost is done")

        way.shut()
        both.primary.kill()
        door.touch()
        both.standby.promote()
        again = 0
        while again < late:
            again, *_ = here.enqueue("drill.stamp", queue="unused")
        way.open()
        here.until(lambda: logged(worker, "stale outcome"), "the late outcome is refused", of=worker)
        here.until(lambda: failover.is_drained(here), "all is done")

    assert late == again
    assert set(kept) == failover.orders(here)
    assert sorted(kept) == failover.tasks(here) == failover.entries(here)
    assert here.are([again], "pending")
    assert [(0, 0)] == here.losses([again])


def test_a_server_that_has_just_taken_over_declares_no_worker_dead(both: Pair, here: Environment) -> None:
    """After a failover all beacons are missing, and no worker could beat meanwhile. This also holds if the standby has
    been up for a long time."""
    with psycopg.connect(both.standby.url(), autocommit=True) as connection:
        eventually(lambda: age_seconds(connection) > OLD_SECONDS, "the standby is old enough")
        here.ask(
            "INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, state, beacon, is_leader,"
            " term, leader_until, beat_at) VALUES"
            " (gen_random_uuid(), 'there', 1, '0', '{}', 1, 'running', 7, true, 1, now() + interval '10 min', now()),"
            " (gen_random_uuid(), 'away', 1, '0', '{}', 1, 'running', 8, false, 0, NULL, now() - interval '1 hour')"
        )
        both.standby.wait_for(position(both.primary))
        both.fail_over()
        # Less than the server's uptime, and by OLD_SECONDS more than the time since the last transaction of the old
        # primary. So only a check of that transaction spares the workers, however long the failover has taken.
        dead_after = age_seconds(connection)
        connection.execute(
            "UPDATE orchestrator.workers SET dead_after = make_interval(secs => %s)", [dead_after]
        )
        config = Config(dead_after_seconds=dead_after, heartbeat_seconds=0.1, term_seconds=600.0)
        recovery = Recovery(grace_seconds=0.0)
        found_dead = [recovery.is_worth(connection), recovery.is_worth(connection)]
        late = recover(connection, spares_after_restart=True)
        seen = ask(connection, uuid4(), beats=False, draining=False, beacon=None, rings=False, config=config)

        assert ([False, False], 0) == (found_dead, late.workers)
        assert (True, False) == (seen.view.holds, seen.view.beacon_lost)


def age_seconds(connection: psycopg.Connection) -> float:
    """Return how long the server has been up."""
    seconds = value(
        connection, "SELECT extract(epoch FROM statement_timestamp() - pg_postmaster_start_time())::float8"
    )
    return float(seconds)


def test_workers_leave_a_server_that_is_no_longer_the_primary(both: Pair, here: Environment) -> None:
    """It still answers, but accepts no writes. All connections go to the new primary, also that which only listens."""
    worker = here.hire(settings={"ORCHESTRATOR_POLL_SECONDS": "60"})
    both.standby.promote()
    both.set("default_transaction_read_only = on")
    with (
        environment(both.standby.url(), here.folder("new"), {}) as new,
        environment(both.primary.url(), here.folder("old"), {}) as old,
    ):
        new.until(lambda: new.serves(worker) and has_left(old), "it has left", seconds=20, of=worker)
        new.until(lambda: sleeps(new), "it sleeps", of=worker)

        new.results(new.enqueue("drill.stamp"), seconds=30)

    assert worker.popen.poll() is None


def has_left(old: Environment) -> bool:
    """Return whether no worker has a connection there."""
    return not old.ask("SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'orchestrator%%'")


def sleeps(new: Environment) -> bool:
    """Return whether the worker asks for notifications."""
    return bool(
        new.ask("SELECT 1 FROM orchestrator.workers WHERE idle_until > clock_timestamp() + interval '30 s'")
    )
