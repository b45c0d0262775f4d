"""The leader at work: two groups of duties, each duty at its interval, and none delays another."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from orchestrator import events
from orchestrator.config import Config
from orchestrator.lead import Duty, DutyGroup, Leader, TermOver, elect, resign
from orchestrator.postgres.reconnect import Reconnect
from orchestrator.postgres.thread_connection import ThreadConnection
from orchestrator.worker.beat_report import ask
from orchestrator.worker.register import register
from tests.clock import Clock
from tests.lead.conftest import TERM_SECONDS, Candidate
from tests.patience import PATIENCE_SECONDS, eventually
from tests.worker.running import recorded

Make = Callable[[], Candidate]
Connection = psycopg.Connection[Any]


class Wheel:
    """A Leader, and the reports of its heartbeat."""

    def __init__(self, url: str, worker: Candidate, urgent: list[Duty], housekeeping: list[Duty]) -> None:
        self.worker = worker
        reach = Reconnect()
        self.leader = Leader(
            lambda purpose: ThreadConnection(url, purpose=purpose, reach=reach),
            worker_id=lambda: worker.id,
            urgent=urgent,
            housekeeping=housekeeping,
            term_seconds=TERM_SECONDS,
            is_idle=lambda: self.is_idle,
        )
        self.is_idle = True
        self.leader.start()

    def look(self, *, beats: bool = True, has_beacon: bool = True) -> None:
        """Beat once, or only look, and give the leader the result."""
        config = Config(term_seconds=TERM_SECONDS)
        report = ask(
            self.worker.session, self.worker.id,
            beats=beats, draining=False, beacon=None, rings=False, config=config,
        )  # fmt: skip
        self.leader.heard(replace(report.view, has_beacon=has_beacon), sent_at=report.sent_at)


@pytest.fixture
def wheel(database_url: str, candidate: Make) -> Iterator[Callable[..., Wheel]]:
    """Make a leader with these duties; it is stopped after the test."""
    with ExitStack() as stack:

        def make(urgent: list[Duty], housekeeping: list[Duty] | None = None) -> Wheel:
            made = Wheel(database_url, candidate(), urgent, housekeeping or [idle()])
            stack.callback(made.leader.stop)
            return made

        yield make


def idle() -> Duty:
    return Duty("idle", 3600.0, lambda _connection: False)


def counting(done: threading.Semaphore) -> Callable[[Connection], bool]:
    """Return a duty that reports each of its rounds."""

    def work(_connection: Connection) -> bool:
        done.release()
        return False

    return work


@pytest.fixture
def leading(wheel: Callable[..., Wheel]) -> Wheel:
    """A leader that does its duties."""
    done = threading.Semaphore(0)
    made = wheel([Duty("d", 3600.0, counting(done))])
    made.look()
    assert done.acquire(timeout=PATIENCE_SECONDS)
    return made


def test_a_vacant_lead_is_taken_and_its_duties_are_done(
    wheel: Callable[..., Wheel], connection: psycopg.Connection
) -> None:
    """At the first look; both groups begin at once."""
    urgent, house = threading.Semaphore(0), threading.Semaphore(0)
    made = wheel([Duty("urgent", 3600.0, counting(urgent))], [Duty("house", 3600.0, counting(house))])
    made.look()

    assert urgent.acquire(timeout=PATIENCE_SECONDS)
    assert house.acquire(timeout=PATIENCE_SECONDS)
    leads = connection.execute("SELECT id FROM orchestrator.leader").fetchall()
    assert [(made.worker.id,)] == leads


def test_a_leader_that_resigns_does_not_warn_that_it_stepped_down(
    leading: Wheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look during the resignation finds no term. A warning about it would come after each deploy."""

    def resign_and_look(*given: Any) -> bool:
        resigned = resign(*given)
        leading.look()
        return resigned

    monkeypatch.setattr("orchestrator.lead.leader.resign", resign_and_look)
    with recorded(events.LeaderResigned, events.LeaderSteppedDown) as seen:
        leading.leader.stop()

    assert [events.LeaderResigned(leading.worker.id, 1)] == seen


def test_a_leader_that_could_not_resign_does_not_lead_again(
    leading: Wheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look still finds its term. It has stopped its duties, and lets the term run out."""

    def fail(*_given: Any) -> bool:
        raise psycopg.errors.LockNotAvailable("its row is locked")

    with recorded(events.LeaderElected) as elected:
        with monkeypatch.context() as patch:
            patch.setattr("orchestrator.lead.leader.resign", fail)
            leading.leader.stop()
        leading.look()

    assert [] == elected


def test_a_leader_that_stops_makes_room(wheel: Callable[..., Wheel]) -> None:
    """Another worker's next look finds the lead vacant, without a wait for the end of the term."""
    first_done, second_done = threading.Semaphore(0), threading.Semaphore(0)
    first = wheel([Duty("d", 3600.0, counting(first_done))])
    second = wheel([Duty("d", 3600.0, counting(second_done))])
    first.look()
    assert first_done.acquire(timeout=PATIENCE_SECONDS)
    second.look()
    with recorded(events.LeaderResigned, events.LeaderElected) as seen:
        first.leader.stop()
        second.look()
        assert second_done.acquire(timeout=PATIENCE_SECONDS)
        second.leader.stop()

    assert [(first.worker.id, 1), (second.worker.id, 2), (second.worker.id, 2)] == [
        (event.worker_id, event.term) for event in seen
    ]


def test_a_failed_duty_is_reported_and_does_not_stop_the_others(wheel: Callable[..., Wheel]) -> None:
    """It runs again at its next turn."""
    done, failed = threading.Semaphore(0), threading.Semaphore(0)

    def fail(_connection: Connection) -> bool:
        failed.release()
        raise ZeroDivisionError("on purpose")

    with recorded(events.DutyFailed) as emitted:
        made = wheel([Duty("broken", 0.01, fail), Duty("sound", 0.01, counting(done))])
        made.look()
        for _ in range(2):
            assert failed.acquire(timeout=PATIENCE_SECONDS)
            assert done.acquire(timeout=PATIENCE_SECONDS)
        made.leader.stop()

    assert {("broken", "ZeroDivisionError", "on purpose")} == {
        (event.duty, event.error_class, event.message) for event in emitted
    }


def test_the_events_of_a_duty_are_emitted_after_its_commit(wheel: Callable[..., Wheel]) -> None:
    """A rolled-back duty emits no event and counts nothing."""
    failed = threading.Semaphore(0)

    def fail(_connection: Connection) -> bool:
        events.emit(events.RowsExpired("undone", 1))
        failed.release()
        raise ZeroDivisionError("on purpose")

    def work(_connection: Connection) -> bool:
        events.emit(events.RowsExpired("done", 1))
        return False

    with recorded(events.RowsExpired) as emitted:
        made = wheel([Duty("broken", 0.01, fail), Duty("sound", 0.01, work)])
        made.look()
        eventually(lambda: emitted, "what was done is told")
        for _ in range(3):
            assert failed.acquire(timeout=PATIENCE_SECONDS)
        made.leader.stop()

    assert {"done"} == {event.kind for event in emitted}


def test_a_statement_that_fails_costs_no_connection(wheel: Callable[..., Wheel]) -> None:
    """Its transaction is rolled back, and the next duty uses the same session."""
    pids: list[int] = []
    done = threading.Event()

    def fail(connection: Connection) -> bool:
        connection.execute("SELECT 1 / 0")
        return False

    def note(connection: Connection) -> bool:
        pids.append(connection.info.backend_pid)
        if len(pids) > 3:
            done.set()
        return False

    made = wheel([Duty("broken", 0.01, fail), Duty("sound", 0.01, note)])
    made.look()

    assert done.wait(PATIENCE_SECONDS)
    assert 1 == len(set(pids))


def test_a_slow_duty_keeps_its_own_group_waiting_and_no_other(wheel: Callable[..., Wheel]) -> None:
    """The other group does the urgent duties meanwhile."""
    slow_began, done, let_go = threading.Event(), threading.Semaphore(0), threading.Event()

    def slow(_connection: Connection) -> bool:
        slow_began.set()
        let_go.wait(PATIENCE_SECONDS)
        return False

    made = wheel([Duty("urgent", 0.01, counting(done))], [Duty("slow", 3600.0, slow)])
    made.look()
    assert slow_began.wait(PATIENCE_SECONDS)
    rounds = [done.acquire(timeout=PATIENCE_SECONDS) for _ in range(5)]
    let_go.set()

    assert [True] * 5 == rounds


def test_a_duty_with_more_to_do_shares_its_group(wheel: Callable[..., Wheel]) -> None:
    """It runs again at once, but the others get their turns."""
    done = threading.Semaphore(0)
    rounds: list[int] = []

    def busy(_connection: Connection) -> bool:
        rounds.append(1)
        return True

    made = wheel([Duty("busy", 3600.0, busy), Duty("other", 0.01, counting(done))])
    made.look()
    turns = [done.acquire(timeout=PATIENCE_SECONDS) for _ in range(3)]
    made.leader.stop()

    assert [True] * 3 == turns
    assert len(rounds) >= 3  # one before each turn of the other, at least


def test_the_fence_notices_the_end_of_a_term(
    wheel: Callable[..., Wheel], connection: psycopg.Connection
) -> None:
    """The lead was taken away without notice: no duty runs any more, and an event reports it."""
    done = threading.Semaphore(0)
    over = threading.Event()
    made = wheel([Duty("d", 0.01, counting(done))])
    unsubscribe = events.subscribe(
        lambda event: over.set() if isinstance(event, events.LeaderSteppedDown) else None
    )
    made.look()
    assert done.acquire(timeout=PATIENCE_SECONDS)
    connection.execute("UPDATE orchestrator.workers SET is_leader = false, leader_until = NULL")
    try:
        assert over.wait(PATIENCE_SECONDS)
    finally:
        unsubscribe()


def test_a_leader_stops_after_a_term_by_its_own_clock(wheel: Callable[..., Wheel], clock: Clock) -> None:
    """Our own clock stops us although the database, whose clock stands still, would let us go on."""
    made = wheel([Duty("d", 0.01, lambda _connection: False)])
    made.leader._term_seconds = 0.2
    over = threading.Event()
    unsubscribe = events.subscribe(
        lambda event: over.set() if isinstance(event, events.LeaderSteppedDown) else None
    )
    made.look()
    try:
        assert over.wait(PATIENCE_SECONDS)
    finally:
        unsubscribe()
    until = clock.now + timedelta(seconds=0.2)
    leads = made.worker.session.execute("SELECT leader_until FROM orchestrator.leader").fetchall()
    assert [(until,)] == leads


def test_a_group_does_nothing_in_another_term(
    database_url: str, candidate: Make, connection: psycopg.Connection
) -> None:
    """Every step has the fence."""
    worker = candidate()
    leadership = worker.leadership()
    rounds: list[UUID] = []

    def work(_connection: Connection) -> bool:
        rounds.append(worker.id)
        return False

    group = DutyGroup(
        ThreadConnection(database_url, purpose="group", reach=Reconnect()),
        [Duty("d", 0.0, work)],
        limit_seconds=5,
    )
    group.step(leadership)
    connection.execute("UPDATE orchestrator.workers SET term = term + 1")
    try:
        with pytest.raises(TermOver):
            group.step(leadership)
    finally:
        group.close()

    assert 1 == len(rounds)


def let_it_rest(made: Wheel, done: threading.Semaphore) -> None:
    """Return when the leader rests. Its first turns come before it knows that it is alone, so it takes a few."""
    made.look()
    assert done.acquire(timeout=PATIENCE_SECONDS)
    while done.acquire(timeout=0.5):
        made.look()


def test_a_leader_that_is_alone_rests_until_another_worker_comes(
    wheel: Callable[..., Wheel], candidate: Make
) -> None:
    """Nobody can be lost, and no task can be late. When another worker comes, the duty is due at once."""
    done = threading.Semaphore(0)
    made = wheel([Duty("d", 0.01, counting(done), rest_seconds=3600.0)])
    let_it_rest(made, done)

    candidate()
    made.look()

    assert done.acquire(timeout=PATIENCE_SECONDS)
    assert done.acquire(timeout=PATIENCE_SECONDS), "it goes on"


@pytest.mark.parametrize("way", ["found", "in the way", "broken"])
def test_a_duty_that_has_something_to_do_does_not_rest(wheel: Callable[..., Wheel], way: str) -> None:
    """What it could not do at once, for instance because a row was locked, it tries again soon."""
    done = threading.Semaphore(0)

    def work(_connection: Connection) -> bool:
        done.release()
        if way == "in the way":
            raise psycopg.errors.LockNotAvailable
        if way == "broken":
            raise ValueError("a fault")
        return False

    made = wheel([Duty("d", 0.01, work, worth=lambda _connection: True, rest_seconds=3600.0)])
    made.look()

    assert all(done.acquire(timeout=PATIENCE_SECONDS) for _ in range(4))


def test_a_new_worker_calls_the_leader(
    database_url: str, candidate: Make, connection: psycopg.Connection
) -> None:
    """Else it could be killed, and be missed only when the leader has rested."""
    leader = candidate().leadership()
    connection.execute("LISTEN orchestrator_workers")

    register(connection, uuid4(), config=Config(database_url=database_url), types=[])

    heard = [each.payload for each in connection.notifies(timeout=PATIENCE_SECONDS, stop_after=1)]
    assert [str(leader.worker_id)] == heard


def test_a_leader_that_rests_goes_on_when_it_holds_tasks(wheel: Callable[..., Wheel]) -> None:
    """Both groups, at its next beat: a burst shows in the samples."""
    urgent, house = threading.Semaphore(0), threading.Semaphore(0)
    made = wheel(*([Duty("d", 0.01, counting(done), rest_seconds=3600.0)] for done in (urgent, house)))
    for done in (urgent, house):
        let_it_rest(made, done)

    made.is_idle = False
    made.look()

    assert all(done.acquire(timeout=PATIENCE_SECONDS) for done in (urgent, house) for _ in range(4))


def test_a_leader_that_rests_stands_again_as_soon_as_its_term_is_over(
    wheel: Callable[..., Wheel], connection: psycopg.Connection
) -> None:
    """Not when its rest is over."""
    done = threading.Semaphore(0)
    made = wheel([Duty("d", 0.01, counting(done), rest_seconds=3600.0)])
    let_it_rest(made, done)

    connection.execute("UPDATE orchestrator.workers SET is_leader = false")
    made.look()

    assert done.acquire(timeout=PATIENCE_SECONDS)


def test_a_leader_that_holds_tasks_does_not_rest(wheel: Callable[..., Wheel]) -> None:
    """They may be late."""
    done = threading.Semaphore(0)
    made = wheel([Duty("d", 0.01, counting(done), rest_seconds=3600.0)])
    made.is_idle = False
    made.look()

    assert all(done.acquire(timeout=PATIENCE_SECONDS) for _ in range(20))


def test_a_lock_in_the_way_puts_a_duty_off(
    wheel: Callable[..., Wheel], connection: psycopg.Connection, database_url: str
) -> None:
    """That is no failure; it runs again when the lock is released."""
    done = threading.Event()

    def work(held: Connection) -> bool:
        held.execute("SELECT FROM orchestrator.queues FOR UPDATE")
        done.set()
        return False

    with psycopg.connect(database_url) as operator, recorded(events.DutyPutOff, events.DutyFailed) as emitted:
        operator.execute("SELECT FROM orchestrator.queues FOR UPDATE")
        made = wheel([Duty("patient", 0.01, work)])
        made.look()
        eventually(lambda: emitted, "it is put off")
        operator.rollback()
        assert done.wait(PATIENCE_SECONDS)
        made.leader.stop()

    assert {("DutyPutOff", "patient")} == {(type(event).__name__, event.duty) for event in emitted}


def test_a_worker_that_missed_its_election_learns_of_it_from_its_beat(
    wheel: Callable[..., Wheel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The election is committed, but its answer is lost: the row says that it leads, and each beat renews that."""
    done, heard = threading.Semaphore(0), threading.Event()

    def lossy(*args: Any, **options: Any) -> int | None:
        elect(*args, **options)
        heard.set()
        raise psycopg.OperationalError("the connection broke after COMMIT")

    monkeypatch.setattr("orchestrator.lead.leader.elect", lossy)
    made = wheel([Duty("d", 3600.0, counting(done))])
    made.look()
    assert heard.wait(PATIENCE_SECONDS)
    made.look()

    assert done.acquire(timeout=PATIENCE_SECONDS)


def test_a_leader_that_stepped_down_too_early_goes_on_after_its_next_beat(
    wheel: Callable[..., Wheel],
) -> None:
    """Its own clock was too careful: the database has renewed the term."""
    done = threading.Semaphore(0)
    made = wheel([Duty("d", 0.01, counting(done))])
    made.look()
    assert done.acquire(timeout=PATIENCE_SECONDS)
    with recorded(events.LeaderSteppedDown) as over:
        made.leader._trusted_until = 0.0
        eventually(lambda: over, "it steps down")
    while done.acquire(blocking=False):
        pass
    made.look()

    assert done.acquire(timeout=PATIENCE_SECONDS)


def test_workers_that_died_with_the_leader_are_looked_for_before_it_is_replaced(
    wheel: Callable[..., Wheel], candidate: Make, connection: Connection
) -> None:
    """As soon as the leader's beacon is lost, and while it still holds the lead: the graces run at the same time."""
    looked = threading.Semaphore(0)
    leader = candidate()
    leader.leadership()
    connection.execute("UPDATE orchestrator.workers SET beacon = 4711 WHERE id = %s", [leader.id])
    connection.execute(
        "CREATE OR REPLACE FUNCTION orchestrator.up_since() RETURNS timestamptz LANGUAGE sql STABLE"
        " AS $$ SELECT statement_timestamp() - interval '1 day' $$"
    )
    made = wheel([Duty("d", 3600.0, lambda _connection: False, worth=counting(looked))])
    made.look(beats=False)

    assert looked.acquire(timeout=PATIENCE_SECONDS)
    assert made.leader._leadership is None
    assert [(leader.id,)] == connection.execute(
        "SELECT id FROM orchestrator.workers WHERE is_leader"
    ).fetchall()


def test_a_worker_without_a_beacon_leaves_the_lead_to_others_for_a_while(
    wheel: Callable[..., Wheel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its death would be noticed only after its term. But if no worker can hold a beacon, one must lead all the
    same."""
    monkeypatch.setattr("orchestrator.lead.leader.NO_BEACON_SECONDS", 3600.0)
    made = wheel([idle()])
    made.look(has_beacon=False)
    stands = made.leader._vacant
    monkeypatch.setattr("orchestrator.lead.leader.NO_BEACON_SECONDS", 0.0)
    made.look(has_beacon=False)

    assert not stands
    eventually(lambda: made.leader._leadership, "it leads")


def test_a_look_makes_no_term_longer(wheel: Callable[..., Wheel]) -> None:
    """Only a beat does; after a look alone the leader would believe in a term that the database has ended."""
    made = wheel([Duty("d", 0.01, lambda _connection: False)])
    made.look()
    eventually(lambda: made.leader._leadership, "it leads")
    before = made.leader._trusted_until
    made.look(beats=False)
    after_look = made.leader._trusted_until
    made.look()

    assert before == after_look < made.leader._trusted_until
