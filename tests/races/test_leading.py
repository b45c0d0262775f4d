"""Candidates, leaders and their duties: one worker leads at a time, terms rise, and no duty runs in another's term.

The clock is stopped here, except for one step in which a term ends. The statements' own lock_timeout is off, so that a
session that must wait does wait. tests/lead shows that the lock_timeout ends such a wait.
"""

import pytest

from tests.races.conftest import Arena
from tests.races.manual import lock_worker
from tests.races.setup_rows import workers
from tests.races.statements import (
    TERM_SECONDS,
    duty,
    elect,
    elect_at_once,
    held,
    leader,
    operator,
    renew,
    resign,
    resign_if_elected,
    time_passes,
    worker,
)
from tests.races.stepping import Actor

NOW = "UPDATE orchestrator.test_clock SET now = clock_timestamp()"
LATER = "UPDATE orchestrator.test_clock SET now = now + interval '1 minute'"
TERM_ENDS = operator(time_passes(seconds=TERM_SECONDS + 1), name="time")
C_LEADS = [NOW, workers("bc", leader="c")]


@pytest.fixture
def arena(arena: Arena) -> Arena:
    """A new database with a stopped clock."""
    arena.build_clock()
    return arena


def candidate(name: str) -> Actor:
    return leader(*held(*elect(name)), name=name)


def candidate_at_once(name: str) -> Actor:
    return leader(*held(elect_at_once(name)), name=name)


def c_does_a_duty() -> Actor:
    return leader(*held(*duty("c", 1)), name="c")


def c_resigns() -> Actor:
    return leader(*held(*resign("c", 1)), name="c resigns")


def c_beats() -> Actor:
    return worker("c", *held(renew("c")), session="c beats")


def test_one_of_two_candidates_for_a_vacant_lead_wins(arena: Arena) -> None:
    """They meet at the unique index. The loser gets 23505, or finds that there is a leader."""
    race = arena.explore([NOW, workers("ab")], candidate("a"), candidate("b"))

    assert {
        "a.elect 11, b.elect -": 15,
        "a.elect 11, b.elect 23505": 10,
        "a.elect 23505, b.elect 11": 10,
        "a.elect -, b.elect 11": 15,
    } == race.outcomes
    assert {"a elect for b", "b elect for a"} == race.waits


def test_one_of_two_candidates_after_a_term_wins(arena: Arena) -> None:
    """They meet at the old leader's row. The one that waited there finds a new leader, and does not remove it."""
    race = arena.explore([NOW, workers("abc", leader="c"), LATER], candidate("a"), candidate("b"))

    assert {
        "a.elect 11, b.elect -": 4,
        "a.elect -, b.elect 11": 4,
    } == race.outcomes
    assert {"a check leader for b", "b check leader for a"} == race.waits


@pytest.mark.parametrize("start", [workers("abc"), workers("abc", leader="c")], ids=["vacant", "term over"])
def test_one_of_three_candidates_wins(arena: Arena, start: str) -> None:
    """Each of them wins in some order, the old leader too."""
    race = arena.explore([NOW, start, LATER], *map(candidate_at_once, "abc"))

    assert race.schedules == sum(race.count(f"{name}.elect 11") for name in "abc")
    assert all(race.count(f"{name}.elect 11") for name in "abc")


def test_a_takeover_waits_for_a_duty_and_a_duty_for_a_takeover(arena: Arena) -> None:
    """After the end of the term, the duty runs before the next term begins, or it does not run."""
    race = arena.explore(C_LEADS, c_does_a_duty(), TERM_ENDS, candidate("b"))

    assert {
        "c.fence 5s, c.duty 1, b.elect 11": 12,
        "c.fence 5s, c.duty 1, b.elect -": 26,
        "c.fence -, b.elect 11": 26,
        "c.fence -, b.elect -": 10,
    } == race.outcomes
    assert {"b check leader for c", "c fence for b"} == race.waits


def test_a_resignation_waits_for_the_leaders_own_duty(arena: Arena) -> None:
    """A duty that begins meanwhile waits for the resignation, and does not run."""
    race = arena.explore(C_LEADS, c_does_a_duty(), c_resigns())

    assert {
        "c.fence 5s, c.duty 1, c resigns.resign -": 3,
        "c.fence -, c resigns.resign -": 3,
    } == race.outcomes
    assert {"c resigns own for c", "c fence for c resigns"} == race.waits


def test_a_candidate_during_a_resignation_wins_or_no_worker_does(arena: Arena) -> None:
    """In the second case the lead is vacant, and the next candidate wins."""
    race = arena.explore(C_LEADS, c_resigns(), candidate("b"))

    assert {
        "c resigns.resign -, b.elect 11": 3,
        "c resigns.resign -, b.elect -": 4,
    } == race.outcomes
    assert {"c resigns own for b", "b check leader for c resigns"} == race.waits


def test_beats_and_duties_do_not_wait_for_each_other(arena: Arena) -> None:
    """A beat renews the term in the middle of a duty."""
    race = arena.explore(C_LEADS, c_does_a_duty(), c_beats())

    assert {
        "c.fence 5s, c.duty 1, c beats.beat 1": 10,
    } == race.outcomes
    assert set() == race.waits


def test_a_term_is_renewed_or_taken_over(arena: Arena) -> None:
    """A beat that waited for the takeover renews nothing; a takeover that waited for the beat changes nothing."""
    race = arena.explore(C_LEADS, c_beats(), TERM_ENDS, candidate("b"))

    assert {
        "c beats.beat 1, b.elect 11": 6,
        "c beats.beat 1, b.elect -": 19,
        "c beats.beat None, b.elect 11": 11,
        "c beats.beat None, b.elect -": 6,
    } == race.outcomes
    assert {"b check leader for c beats", "c beats beat for b"} == race.waits


def test_a_duty_of_the_old_leader_does_not_run_in_the_term_of_the_new_one(arena: Arena) -> None:
    """Both run a duty, each in its own term, in any order."""
    race = arena.explore(
        C_LEADS, c_does_a_duty(), TERM_ENDS, leader(elect_at_once("b"), *held(*duty("b")), name="b")
    )

    assert {
        "c.fence 5s, c.duty 1, b.elect 11, b.fence 5s, b.duty 11": 9,
        "c.fence 5s, c.duty 1, b.elect -": 21,
        "c.fence -, b.elect 11, b.fence 5s, b.duty 11": 15,
        "c.fence -, b.elect -": 4,
    } == race.outcomes


def test_a_duty_of_a_resigned_leader_does_not_run_in_the_next_term(arena: Arena) -> None:
    """One thread of the leader does a duty, another resigns, and a successor is elected."""
    race = arena.explore(
        C_LEADS, c_does_a_duty(), c_resigns(), leader(elect_at_once("b"), *held(*duty("b")), name="b")
    )

    assert {
        "c.fence 5s, c.duty 1, c resigns.resign -, b.elect 11, b.fence 5s, b.duty 11",
        "c.fence 5s, c.duty 1, c resigns.resign -, b.elect -",
        "c.fence -, c resigns.resign -, b.elect 11, b.fence 5s, b.duty 11",
        "c.fence -, c resigns.resign -, b.elect -",
    } == race.outcomes.keys()


def test_a_duty_of_the_same_workers_older_term_does_not_run(arena: Arena) -> None:
    """A worker that has resigned, and leads again, does no more duties in its first term."""
    c_leads_again = leader(*held(*resign("c", 1)), elect_at_once("c"), name="c again")
    race = arena.explore(C_LEADS, c_does_a_duty(), c_leads_again)

    assert {
        "c.fence 5s, c.duty 1, c again.resign -, c again.elect 11": 3,
        "c.fence -, c again.resign -, c again.elect 11": 7,
    } == race.outcomes


def test_a_candidate_that_found_a_vacant_lead_removes_no_leader(arena: Arena) -> None:
    """Between its two statements another worker is elected and begins a duty, and a jump of the clock ends that
    term. The takeover has no lock to wait for, and the duty runs in its own term."""
    arena.explore(
        [NOW, workers("ab")],
        candidate("b"),
        leader(elect_at_once("a"), *held(*duty("a")), name="a"),
        TERM_ENDS,
    )


def test_a_candidate_that_is_delayed_after_it_draws_its_term_gets_the_newest_term(arena: Arena) -> None:
    """A lock on the candidate's row delays it after it has drawn its term; another is elected, and resigns."""
    arena.explore(
        [NOW, workers("ab")],
        candidate_at_once("b"),
        leader(elect_at_once("a"), resign_if_elected("a"), name="a"),
        operator(*held(lock_worker("b"))),
    )
