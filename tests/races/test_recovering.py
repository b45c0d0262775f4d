"""Recovery against the worker that is taken for dead, against a second recovery, and against manual changes.

Each race recovers once more at its end, as recovery runs every second; then the dead worker may hold no task.
"""

from datetime import UTC, datetime

import pytest

from tests.races.conftest import Arena
from tests.races.manual import cancel, delete, raise_priority, requeue
from tests.races.setup_rows import crew, task, without_beacon
from tests.races.statements import (
    FAILED,
    GIVEN_UP,
    SNOOZED,
    again,
    beat,
    begin,
    claim,
    complete,
    deregister,
    gated,
    hand,
    held,
    leader,
    look_for_dark,
    open_again,
    recorded,
    recover,
    settle,
    shut,
    take_beacon,
    worker,
)
from tests.races.stepping import Actor
from tests.tiers import long

LATE = crew("ab", late="a")
ORPHANS = [LATE, task(1, "running", of="a"), task(2, "claimed", of="a")]


def test_two_recoveries_equal_one(arena: Arena) -> None:
    """Each task is taken back once and its loss counted once, although two leaders believe that they lead."""
    race = arena.explore(
        ORPHANS,
        leader(*held(recover()), again(recover())),
        leader(*held(recover()), again(recover()), name="other"),
    )

    assert {
        "leader.recover 2, leader.recover again 0, other.recover 0, other.recover again 0; 1 pending, 2 pending": 10,
        "leader.recover 0, leader.recover again 0, other.recover 2, other.recover again 0; 1 pending, 2 pending": 10,
    } == race.outcomes
    assert set() == race.waits


WORKERS_STEPS = {
    "beat": (
        [beat("a")],
        {
            "leader.recover 2, a.beat False; 1 pending, 2 pending": 2,
            "leader.recover 0, a.beat True; 1 running, 2 claimed": 3,
        },
    ),
    "finish": (
        [complete("a", 1, 2)],
        {
            "leader.recover 2, a.finish -; 1 pending, 2 pending": 2,
            "leader.recover 0, a.finish 1 2; 1 completed, 2 completed": 3,
        },
    ),
    "fail": (
        [settle("a", FAILED, 1)],
        {
            "leader.recover 2, a.finish -; 1 pending, 2 pending": 2,
            "leader.recover 1, a.finish 1; 1 scheduled, 2 pending": 3,
        },
    ),
    "give up": (
        [settle("a", GIVEN_UP, 1)],
        {
            "leader.recover 2, a.finish -; 1 pending, 2 pending": 2,
            "leader.recover 1, a.finish 1; 1 dead_letter, 2 pending": 3,
        },
    ),
    "snooze": (
        [settle("a", SNOOZED, 1)],
        {
            "leader.recover 2, a.finish -; 1 pending, 2 pending": 2,
            "leader.recover 1, a.finish 1; 1 scheduled, 2 pending": 3,
        },
    ),
    "begin": (
        [begin("a", 2)],
        {
            "leader.recover 2, a.begin -; 1 pending, 2 pending": 3,
            "leader.recover 1, a.begin 2; 1 pending, 2 pending": 2,
            "leader.recover 2, a.begin 2; 1 pending, 2 pending": 1,
        },
    ),
}


@pytest.mark.parametrize("what", WORKERS_STEPS)
def test_a_worker_taken_for_dead_is_first_or_too_late(arena: Arena, what: str) -> None:
    """Its earlier writes stay; its later ones are refused. It may wait for the recovery, but the recovery never
    waits for it."""
    steps, expected = WORKERS_STEPS[what]

    race = arena.explore(ORPHANS, leader(*held(recover())), worker("a", *held(*steps)), afterwards=recover())

    assert expected == race.outcomes


def test_a_loss_and_an_end_are_never_both_counted(arena: Arena) -> None:
    """The fifth loss would make a dead letter: the task either becomes one, or has finished."""
    race = arena.explore(
        [LATE, task(1, "running", of="a", losses=4)],
        leader(*held(recover())),
        worker("a", *held(complete("a", 1))),
        worker("b", *held(claim("b"))),
        afterwards=recover(),
    )

    assert {
        "leader.recover 0, a.finish -, b.claim -; 1 dead_letter": 30,
        "leader.recover 0, a.finish 1, b.claim -; 1 completed": 45,
    } == race.outcomes


def test_a_loss_is_not_taken_for_the_outcome_that_came_too_late(arena: Arena) -> None:
    """The dead letter has the lease, and so does the record of the loss. The worker checks by it which outcome was
    written."""
    race = arena.explore(
        [LATE, task(1, "running", of="a", losses=4)],
        leader(*held(recover())),
        worker("a", *held(settle("a", FAILED, 1)), recorded("a", 1)),
    )

    assert {
        "leader.recover 0, a.finish -, a.recorded -; 1 dead_letter": 2,
        "leader.recover 0, a.finish 1, a.recorded 1; 1 scheduled": 6,
    } == race.outcomes


def test_a_worker_that_beats_without_its_beacon_is_left_alone(arena: Arena) -> None:
    """Its beacon was lost after its last beat. After another beat, or with the beacon back, it is not taken for
    dead."""
    seen, beacon = datetime.now(UTC), 4711
    race = arena.explore(
        [crew("ab"), without_beacon("a", beacon, seen), *ORPHANS[1:]],
        leader(*held(look_for_dark(), recover(beacon_lost={"a": seen}))),
        worker("a", *held(beat("a", beacon=beacon))),
        worker("a", *take_beacon("a", beacon), session="a listens"),
    )

    assert {
        "leader.recover 2, a.beat False; 1 pending, 2 pending": 22,
        "leader.recover 0, a.beat True; 1 running, 2 claimed": 102,
    } == race.outcomes
    assert {"a beat for leader", "a listens light for leader", "a listens light for a"} == race.waits


def test_a_claim_of_a_dead_worker_is_taken_back(arena: Arena) -> None:
    """A claim during the declaration of death gets no task, or the next round takes its tasks back."""
    race = arena.explore(
        [LATE, task(1), task(2, "running", of="a")],
        leader(*held(recover())),
        worker("a", *held(claim("a")), *held(begin("a", 1))),
        afterwards=recover(),
    )

    assert {
        "leader.recover 1, a.claim -, a.begin -; 1 pending, 2 pending": 1,
        "leader.recover 1, a.claim 1, a.begin 1; 1 pending, 2 pending": 10,
        "leader.recover 2, a.claim 1, a.begin -; 1 pending, 2 pending": 3,
        "leader.recover 2, a.claim 1, a.begin 1; 1 pending, 2 pending": 1,
    } == race.outcomes
    assert set() == race.waits


def test_a_worker_that_deregisters_during_a_claim_is_found(arena: Arena) -> None:
    """It believes that it has stopped cleanly, and its last claim commits afterwards. Recovery finds the task when
    the worker is late."""
    race = arena.explore(
        [LATE, task(1)],
        leader(*held(recover())),
        worker("a", *held(deregister("a"))),
        worker("a", *held(claim("a")), session="a claims"),
        afterwards=recover(later=True),
    )

    assert {
        "leader.recover 0, a.deregister -, a claims.claim -; 1 pending": 9,
        "leader.recover 0, a.deregister -, a claims.claim 1; 1 pending": 21,
        "leader.recover 0, a.deregister changed 1, a claims.claim -; 1 pending": 10,
        "leader.recover 0, a.deregister changed 1, a claims.claim 1; 1 pending": 32,
        "leader.recover 1, a.deregister -, a claims.claim 1; 1 pending": 6,
    } == race.outcomes


def test_claim_recover_and_finish(arena: Arena) -> None:
    """Another worker gets the task only after the recovery's commit, and then the first one's outcome is refused."""
    race = arena.explore(
        [LATE, task(1, "running", of="a")],
        worker("b", *held(claim("b")), complete("b", 1)),
        leader(*held(recover())),
        worker("a", *held(complete("a", 1))),
        afterwards=recover(),
    )

    assert {
        "b.claim -, b.finish -, leader.recover 1, a.finish -; 1 pending": 59,
        "b.claim -, b.finish -, leader.recover 0, a.finish 1; 1 completed": 105,
        "b.claim 1, b.finish 1, leader.recover 1, a.finish -; 1 completed": 11,
    } == race.outcomes
    assert {"a finish for leader"} == race.waits


HANDS = {
    "cancel": (
        cancel(1),
        {
            "leader.recover 2, hand.cancel 1; 1 cancelled, 2 pending": 2,
            "leader.recover 1, hand.cancel 1; 1 cancelled, 2 pending": 3,
        },
    ),
    "requeue": (
        requeue(1),
        {
            "leader.recover 2, hand.requeue 1; 1 pending, 2 pending": 2,
            "leader.recover 1, hand.requeue 1; 1 pending, 2 pending": 3,
        },
    ),
    "delete": (
        delete(1),
        {
            "leader.recover 2, hand.delete 1; 2 pending": 2,
            "leader.recover 1, hand.delete 1; 2 pending": 3,
        },
    ),
    "priority": (
        raise_priority(),
        {
            "leader.recover 2, hand.priority 1 2; 1 pending, 2 pending": 3,
            "leader.recover 0, hand.priority 1 2; 1 pending, 2 pending": 2,
        },
    ),
}


@pytest.mark.parametrize("what", HANDS)
def test_the_manual_change_is_the_last_one(arena: Arena, what: str) -> None:
    """Recovery skips rows that a manual change locks. The manual change waits for the recovery, and then succeeds."""
    wish, expected = HANDS[what]

    race = arena.explore(ORPHANS, leader(*held(recover())), hand(*held(wish)), afterwards=recover())

    assert expected == race.outcomes
    assert {f"hand {wish.name} for leader"} == race.waits


def test_recover_cancel_and_finish(arena: Arena) -> None:
    """Three sessions at one task, and a claim: one of them ends the lease, in any order."""
    race = arena.explore(
        [LATE, task(1, "running", of="a")],
        leader(*held(recover())),
        hand(*held(cancel(1))),
        worker("a", *held(complete("a", 1))),
        worker("b", claim("b")),
        afterwards=recover(),
    )

    assert 350 < race.schedules
    assert {
        "leader.recover 1, hand.cancel 1, a.finish -, b.claim -; 1 cancelled",
        "leader.recover 1, hand.cancel 1, a.finish -, b.claim 1; 1 cancelled",
        "leader.recover 1, hand.cancel 1, a.finish 40001, b.claim -; 1 cancelled",
        "leader.recover 0, hand.cancel 1, a.finish -, b.claim -; 1 cancelled",
        "leader.recover 0, hand.cancel 1, a.finish 40001, b.claim -; 1 cancelled",
        "leader.recover 0, hand.cancel -, a.finish 1, b.claim -; 1 completed",
        "leader.recover 0, hand.cancel OR001, a.finish 1, b.claim -; 1 completed",
    } == race.outcomes.keys()


# Whose step comes in the middle, and by which words it is known that it came first.
GATED: dict[str, tuple[Actor, str]] = {
    "beat": (worker("a", beat("a")), "a.beat True"),
    "finish": (worker("a", complete("a", 1, 2)), "a.finish 1 2"),
    "begin": (worker("a", begin("a", 2)), "a.begin 2"),
    "fail": (worker("a", settle("a", FAILED, 1)), "a.finish 1"),
    "claim": (worker("a", claim("a")), "a.claim 3"),
    "requeue": (hand(requeue(1)), "leader.recover 1"),
    "cancel": (hand(cancel(1)), "leader.recover 1"),
    "delete": (hand(delete(1)), "leader.recover 1"),
    "priority": (hand(raise_priority()), "b.claim 1 2 3"),
}


# A beat, an end, a claim and an update by hand are what recovery must look at again. The others are of the same kinds.
SHORT = ("beat", "finish", "claim", "cancel")


@pytest.mark.parametrize("what", [what if what in SHORT else long(what) for what in GATED])
def test_a_recovery_that_is_stopped_in_the_middle_looks_again(arena: Arena, what: str) -> None:
    """It has taken its snapshot and reads the clock; meanwhile its task changes, and another worker claims it."""
    arena.build_gate()
    actor, came_first = GATED[what]

    race = arena.explore(
        [*ORPHANS, task(3)],
        hand(shut(), open_again(), name="gate"),
        gated(leader(*held(recover()))),
        actor,
        worker("b", claim("b")),
        afterwards=recover(),
    )

    assert 150 == race.schedules
    assert 0 < race.count(came_first) < 150
    assert 0 == race.count("leader.recover 2", "a.beat True")
    assert "leader recover for gate" in race.waits
