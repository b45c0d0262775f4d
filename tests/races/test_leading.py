"""Candidates, leaders and their duties: one worker leads at a time, terms rise, and no duty runs in another's term.

Time stands still here, except for one step in which a term ends. The statements' own lock_timeout is off, so that a
session that must wait does wait; tests/lead shows that it gives up.
"""

import pytest

from tests.races.conftest import Arena
from tests.races.manual import lock_worker
from tests.races.setup_rows import crew
from tests.races.statements import (
    TERM_SECONDS,
    duty,
    hand,
    held,
    leader,
    renew,
    resign,
    resign_what_was_won,
    stand,
    stand_at_once,
    time_passes,
    worker,
)
from tests.races.stepping import Actor

NOW = "UPDATE orchestrator.test_clock SET now = clock_timestamp()"
LATER = "UPDATE orchestrator.test_clock SET now = now + interval '1 minute'"
TERM_ENDS = hand(time_passes(seconds=TERM_SECONDS + 1), name="time")
C_LEADS = [NOW, crew("bc", leader="c")]


@pytest.fixture
def arena(arena: Arena) -> Arena:
    """A new database with a stopped clock."""
    arena.build_clock()
    return arena


def candidate(name: str) -> Actor:
    return leader(*held(*stand(name)), name=name)


def candidate_at_once(name: str) -> Actor:
    return leader(*held(stand_at_once(name)), name=name)


def c_does_a_duty() -> Actor:
    return leader(*held(*duty("c", 1)), name="c")


def c_resigns() -> Actor:
    return leader(*held(*resign("c", 1)), name="c resigns")


def c_beats() -> Actor:
    return worker("c", *held(renew("c")), session="c beats")


def test_of_two_candidates_for_a_vacant_lead_one_wins(arena: Arena) -> None:
    """They meet at the unique index. The other gets 23505, or finds that there is a leader."""
    race = arena.explore([NOW, crew("ab")], candidate("a"), candidate("b"))

    assert {
        "a.ascend 11, b.ascend -": 15,
        "a.ascend 11, b.ascend 23505": 10,
        "a.ascend 23505, b.ascend 11": 10,
        "a.ascend -, b.ascend 11": 15,
    } == race.outcomes
    assert {"a ascend for b", "b ascend for a"} == race.waits


def test_of_two_candidates_after_a_term_one_wins(arena: Arena) -> None:
    """They meet at the old leader's row. The one that waited there finds a new leader, and does not remove it."""
    race = arena.explore([NOW, crew("abc", leader="c"), LATER], candidate("a"), candidate("b"))

    assert {
        "a.ascend 11, b.ascend -": 4,
        "a.ascend -, b.ascend 11": 4,
    } == race.outcomes
    assert {"a incumbent for b", "b incumbent for a"} == race.waits


@pytest.mark.parametrize("start", [crew("abc"), crew("abc", leader="c")], ids=["vacant", "over"])
def test_of_three_candidates_one_wins(arena: Arena, start: str) -> None:
    """Each of them wins in some order, the old leader too."""
    race = arena.explore([NOW, start, LATER], *map(candidate_at_once, "abc"))

    assert race.schedules == sum(race.count(f"{name}.ascend 11") for name in "abc")
    assert all(race.count(f"{name}.ascend 11") for name in "abc")


def test_a_takeover_waits_for_a_duty_and_a_duty_for_a_takeover(arena: Arena) -> None:
    """After the end of the term: the duty runs before the next term begins, or not at all."""
    race = arena.explore(C_LEADS, c_does_a_duty(), TERM_ENDS, candidate("b"))

    assert {
        "c.fence 5s, c.deed 1, b.ascend 11": 12,
        "c.fence 5s, c.deed 1, b.ascend -": 26,
        "c.fence -, b.ascend 11": 26,
        "c.fence -, b.ascend -": 10,
    } == race.outcomes
    assert {"b incumbent for c", "c fence for b"} == race.waits


def test_a_resignation_waits_for_ones_own_duty(arena: Arena) -> None:
    """A duty that begins meanwhile waits for the resignation, and does not run."""
    race = arena.explore(C_LEADS, c_does_a_duty(), c_resigns())

    assert {
        "c.fence 5s, c.deed 1, c resigns.resign -": 3,
        "c.fence -, c resigns.resign -": 3,
    } == race.outcomes
    assert {"c resigns own for c", "c fence for c resigns"} == race.waits


def test_a_candidate_during_a_resignation_wins_or_no_worker_does(arena: Arena) -> None:
    """In the second case the lead is vacant, and the next candidate wins."""
    race = arena.explore(C_LEADS, c_resigns(), candidate("b"))

    assert {
        "c resigns.resign -, b.ascend 11": 3,
        "c resigns.resign -, b.ascend -": 4,
    } == race.outcomes
    assert {"c resigns own for b", "b incumbent for c resigns"} == race.waits


def test_a_beat_waits_for_no_duty_and_no_duty_for_a_beat(arena: Arena) -> None:
    """The term is renewed in the middle of it."""
    race = arena.explore(C_LEADS, c_does_a_duty(), c_beats())

    assert {
        "c.fence 5s, c.deed 1, c beats.beat 1": 10,
    } == race.outcomes
    assert set() == race.waits


def test_a_term_is_renewed_or_taken_over(arena: Arena) -> None:
    """A beat that waited for the takeover renews nothing; a takeover that waited for the beat changes nothing."""
    race = arena.explore(C_LEADS, c_beats(), TERM_ENDS, candidate("b"))

    assert {
        "c beats.beat 1, b.ascend 11": 6,
        "c beats.beat 1, b.ascend -": 19,
        "c beats.beat None, b.ascend 11": 11,
        "c beats.beat None, b.ascend -": 6,
    } == race.outcomes
    assert {"b incumbent for c beats", "c beats beat for b"} == race.waits


def test_a_duty_of_the_old_leader_is_not_done_in_the_new_ones_term(arena: Arena) -> None:
    """Both run a duty, each in its own term, in any order."""
    race = arena.explore(
        C_LEADS, c_does_a_duty(), TERM_ENDS, leader(stand_at_once("b"), *held(*duty("b")), name="b")
    )

    assert {
        "c.fence 5s, c.deed 1, b.ascend 11, b.fence 5s, b.deed 11": 9,
        "c.fence 5s, c.deed 1, b.ascend -": 21,
        "c.fence -, b.ascend 11, b.fence 5s, b.deed 11": 15,
        "c.fence -, b.ascend -": 4,
    } == race.outcomes


def test_a_duty_of_a_resigned_leader_does_not_run_in_the_next_term(arena: Arena) -> None:
    """Two lanes of one leader, one of which resigns, and a successor."""
    race = arena.explore(
        C_LEADS, c_does_a_duty(), c_resigns(), leader(stand_at_once("b"), *held(*duty("b")), name="b")
    )

    assert {
        "c.fence 5s, c.deed 1, c resigns.resign -, b.ascend 11, b.fence 5s, b.deed 11",
        "c.fence 5s, c.deed 1, c resigns.resign -, b.ascend -",
        "c.fence -, c resigns.resign -, b.ascend 11, b.fence 5s, b.deed 11",
        "c.fence -, c resigns.resign -, b.ascend -",
    } == race.outcomes.keys()


def test_a_duty_of_ones_own_older_term_is_not_done(arena: Arena) -> None:
    """A worker that has resigned, and leads again, does no more duties in its first term."""
    c_leads_again = leader(*held(*resign("c", 1)), stand_at_once("c"), name="c again")
    race = arena.explore(C_LEADS, c_does_a_duty(), c_leads_again)

    assert {
        "c.fence 5s, c.deed 1, c again.resign -, c again.ascend 11": 3,
        "c.fence -, c again.resign -, c again.ascend 11": 7,
    } == race.outcomes


def test_a_candidate_that_found_a_vacant_lead_removes_no_leader(arena: Arena) -> None:
    """Between its two statements another worker is elected, begins a duty, and a jump of the clock ends the term.
    The takeover has no lock to wait for, and the duty runs in its own term."""
    arena.explore(
        [NOW, crew("ab")],
        candidate("b"),
        leader(stand_at_once("a"), *held(*duty("a")), name="a"),
        TERM_ENDS,
    )


def test_a_term_that_was_drawn_and_waited_is_not_older_than_the_last(arena: Arena) -> None:
    """A lock on the candidate's row delays it after it has drawn its term; another is elected, and resigns."""
    arena.explore(
        [NOW, crew("ab")],
        candidate_at_once("b"),
        leader(stand_at_once("a"), resign_what_was_won("a"), name="a"),
        hand(*held(lock_worker("b"))),
    )
