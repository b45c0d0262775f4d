"""One worker leads at a time, terms rise, and nothing is written in a term that is over."""

from collections.abc import Callable
from datetime import datetime

import psycopg
import pytest
from psycopg import errors

from orchestrator import lead
from orchestrator.config import Config
from orchestrator.lead import Gone, Leadership, TermOver
from orchestrator.worker.beat_report import ask
from tests.clock import Clock
from tests.lead.conftest import TERM_SECONDS, Candidate

Make = Callable[[], Candidate]
BEACON = 4711


def test_a_vacant_lead_goes_to_a_candidate(connection: psycopg.Connection, candidate: Make) -> None:
    """In the first term; no other worker gets it during that term."""
    first, second = candidate(), candidate()

    assert 1 == first.stand()
    assert None is second.stand()
    assert None is first.stand()
    assert [(first.id, 1)] == leaders(connection)


def test_terms_strictly_rise(candidate: Make, clock: Clock) -> None:
    """For any winner, with or without candidates that lose in between."""
    workers = [candidate(), candidate(), candidate()]
    terms = []
    for round_ in range(6):
        won = [worker.stand() for worker in workers[round_ % 3 :] + workers[: round_ % 3]]
        terms += [term for term in won if term is not None]
        clock.advance(seconds=TERM_SECONDS)

    assert 6 == len(terms)
    assert sorted(set(terms)) == terms


def test_a_term_ends_at_its_exact_time(candidate: Make, clock: Clock) -> None:
    """Neither earlier nor later."""
    first, second = candidate(), candidate()
    first.stand()
    clock.advance(seconds=TERM_SECONDS - 1)
    early = second.stand()
    clock.advance(seconds=1)

    assert (None, 2) == (early, second.stand())


@pytest.mark.parametrize("state", ["draining", "stopped", "dead"])
def test_a_worker_that_does_not_serve_does_not_lead(
    connection: psycopg.Connection, candidate: Make, state: str
) -> None:
    """Not even if there is no leader."""
    worker = candidate()
    connection.execute("UPDATE orchestrator.workers SET state = %s", [state])

    assert None is worker.stand()


@pytest.mark.parametrize("state", ["stopped", "dead"])
def test_a_leader_that_was_declared_dead_is_replaced_at_once(
    connection: psycopg.Connection, candidate: Make, state: str
) -> None:
    """Even if its term is long."""
    first, second = candidate(), candidate()
    first.stand()
    connection.execute("UPDATE orchestrator.workers SET state = %s WHERE id = %s", [state, first.id])

    assert 2 == second.stand()


def test_a_term_given_by_a_clock_that_was_set_back_since_is_over(candidate: Make, clock: Clock) -> None:
    """Otherwise the lead would be vacant for as long as the clock was ahead."""
    first, second = candidate(), candidate()
    clock.advance(hours=1)
    leadership = first.leadership()
    clock.advance(hours=-1)

    assert 2 == second.stand()
    with pytest.raises(TermOver):
        do_nothing(first, leadership)


def test_two_leaders_an_hour_apart_cannot_both_act(candidate: Make, clock: Clock) -> None:
    """With a clock difference in either direction: of two terms only the later one passes the fence."""
    first, second = candidate(), candidate()
    older = first.leadership()
    for hours in (1, -1, 1):
        clock.advance(hours=hours)
        newer = second.leadership()
        with pytest.raises(TermOver):
            do_nothing(first, older)
        do_nothing(second, newer)
        first, second, older = second, first, newer


def test_a_leader_whose_beacon_is_gone_can_be_replaced(
    connection: psycopg.Connection, candidate: Make
) -> None:
    """By a candidate that saw its beacon lost after its last beat; not after another beat, and not while it holds
    the beacon."""
    first, second = candidate(), candidate()
    first.stand()
    connection.execute("UPDATE orchestrator.workers SET beacon = %s WHERE id = %s", [BEACON, first.id])
    gone = Gone(first.id, beat_at(connection, first))
    first.session.execute("SELECT pg_advisory_lock(hashtextextended(%s::text, %s))", [first.id, BEACON])
    while_lit = second.stand(gone)
    first.session.execute("SELECT pg_advisory_unlock_all()")
    connection.execute(
        "UPDATE orchestrator.workers SET beat_at = beat_at + interval '1 s' WHERE id = %s", [first.id]
    )
    after_beat = second.stand(gone)
    gone = Gone(first.id, beat_at(connection, first))

    assert (None, None, 2) == (while_lit, after_beat, second.stand(gone))


def test_a_leader_without_a_beacon_keeps_its_term(connection: psycopg.Connection, candidate: Make) -> None:
    """Behind PgBouncer no worker holds one, so that proves nothing."""
    first, second = candidate(), candidate()
    first.stand()

    assert None is second.stand(Gone(first.id, beat_at(connection, first)))


def test_a_duty_runs_in_its_own_term_only(candidate: Make, clock: Clock) -> None:
    """In another leader's term, an older one, or one that is over, nothing is written."""
    first, second = candidate(), candidate()
    leadership = first.leadership()
    do_nothing(first, leadership)
    for wrong in (
        Leadership(second.id, leadership.term),
        Leadership(first.id, leadership.term - 1),
        Leadership(first.id, leadership.term + 1),
    ):
        with pytest.raises(TermOver):
            do_nothing(first, wrong)
    clock.advance(seconds=TERM_SECONDS)

    with pytest.raises(TermOver):
        do_nothing(first, leadership)


def test_a_takeover_waits_for_a_duty_that_runs(candidate: Make, clock: Clock) -> None:
    """The term may end in the middle of the duty: the next term begins after its commit."""
    first, second = candidate(), candidate()
    leadership = first.leadership()
    with lead.fenced(first.session, leadership, limit_seconds=5):
        clock.advance(seconds=2 * TERM_SECONDS)
        with pytest.raises(errors.LockNotAvailable):
            second.stand()

    assert 2 == second.stand()


def test_a_resignation_waits_for_a_duty_that_runs(candidate: Make) -> None:
    """Our own duty, in another thread."""
    first, second = candidate(), candidate()
    leadership = first.leadership()
    second.session.execute("SET lock_timeout = '50ms'")
    with lead.fenced(first.session, leadership, limit_seconds=5), pytest.raises(errors.LockNotAvailable):
        lead.resign(second.session, leadership)

    assert lead.resign(second.session, leadership)


def test_the_leaders_beat_does_not_wait_for_a_duty(
    candidate: Make, connection: psycopg.Connection, clock: Clock
) -> None:
    """And it extends the term in the middle of the duty."""
    first, second = candidate(), candidate()
    leadership = first.leadership()
    second.session.execute("SET lock_timeout = '50ms'")
    with lead.fenced(first.session, leadership, limit_seconds=5):
        clock.advance(seconds=TERM_SECONDS - 1)
        assert leadership.term == beat(second.session, first)
    clock.advance(seconds=TERM_SECONDS - 1)

    do_nothing(first, leadership)


def test_a_term_that_is_over_is_not_renewed(candidate: Make, clock: Clock) -> None:
    """By a late beat: another worker may already be a candidate."""
    first, second = candidate(), candidate()
    first.stand()
    clock.advance(seconds=TERM_SECONDS)

    assert None is beat(first.session, first)
    assert 2 == second.stand()
    assert None is beat(first.session, first)


@pytest.mark.parametrize("drained", ["by itself", "by an operator"])
def test_a_draining_leader_does_not_renew_its_term(
    connection: psycopg.Connection, candidate: Make, clock: Clock, drained: str
) -> None:
    """If its resignation fails, its term ends, and another worker can be elected."""
    first, second = candidate(), candidate()
    first.stand()
    clock.advance(seconds=TERM_SECONDS - 1)

    if drained == "by an operator":
        connection.execute("SELECT orchestrator.drain_worker(%s)", [first.id])
    beat(first.session, first, draining=drained == "by itself")
    clock.advance(seconds=1)

    assert 2 == second.stand()


def test_a_resignation_makes_room_at_once(connection: psycopg.Connection, candidate: Make) -> None:
    """And notifies all workers."""
    first, second = candidate(), candidate()
    leadership = first.leadership()
    connection.execute("LISTEN orchestrator_workers")

    assert lead.resign(first.session, leadership)

    assert ["lead"] == [n.payload for n in connection.notifies(timeout=5, stop_after=1)]
    assert 2 == second.stand()


def test_a_late_resignation_touches_no_newer_term(
    connection: psycopg.Connection, candidate: Make, clock: Clock
) -> None:
    """Neither another worker's, nor a later one of its own."""
    first, second = candidate(), candidate()
    leadership = first.leadership()
    clock.advance(seconds=TERM_SECONDS)
    second.stand()
    after_another = lead.resign(first.session, leadership)
    clock.advance(seconds=TERM_SECONDS)
    first.stand()

    assert (False, False) == (after_another, lead.resign(first.session, leadership))
    assert [(first.id, 3)] == leaders(connection)


def test_a_duty_after_its_term_writes_nothing(
    connection: psycopg.Connection, candidate: Make, clock: Clock
) -> None:
    """The fence comes first, so no write needs to be undone. A duty that raises an error also leaves no write."""
    worker = candidate()
    leadership = worker.leadership()

    def half() -> None:
        with lead.fenced(worker.session, leadership, limit_seconds=5):
            worker.session.execute("INSERT INTO orchestrator.queues (name) VALUES ('half')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()

    assert [] == connection.execute("SELECT name FROM orchestrator.queues WHERE name = 'half'").fetchall()


def test_the_server_ends_a_duty_that_lasts_too_long(candidate: Make) -> None:
    """For a long statement, or an idle transaction: a frozen leader cannot delay its successor."""
    worker = candidate()
    leadership = worker.leadership()
    with pytest.raises(errors.QueryCanceled), lead.fenced(worker.session, leadership, limit_seconds=1):
        # It ends a transaction that is idle for so long, too, as between two statements here on a busy machine.
        worker.session.execute("SELECT pg_sleep(60)")

    with lead.fenced(worker.session, leadership, limit_seconds=30):
        shown = worker.session.execute("SHOW idle_in_transaction_session_timeout").fetchone()
    assert ("30s",) == shown


def leaders(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT id, term FROM orchestrator.workers WHERE is_leader").fetchall()


def beat_at(connection: psycopg.Connection, worker: Candidate) -> datetime:
    row = connection.execute("SELECT beat_at FROM orchestrator.workers WHERE id = %s", [worker.id]).fetchone()
    assert row is not None
    assert isinstance(row[0], datetime)
    return row[0]


def do_nothing(worker: Candidate, leadership: Leadership) -> None:
    with lead.fenced(worker.session, leadership, limit_seconds=5):
        pass


def beat(session: psycopg.Connection, worker: Candidate, *, draining: bool = False) -> int | None:
    """Beat for a worker. Return the term in which it leads."""
    config = Config(term_seconds=TERM_SECONDS)
    report = ask(session, worker.id, beats=True, draining=draining, beacon=None, rings=False, config=config)
    return report.view.term
