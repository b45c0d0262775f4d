"""Recovery against the worker that it declares dead, against a second recovery, and against manual changes.

Each race recovers once more at its end, because recovery runs every second. Then the dead worker may hold no task.
"""

from datetime import UTC, datetime

import pytest

from tests.races.conftest import Arena
from tests.races.manual import cancel, delete, raise_priority, requeue
from tests.races.setup_rows import task, without_beacon, workers
from tests.races.statements import (
    DEAD_LETTERED,
    FAILED,
    SNOOZED,
    again,
    beat,
    begin,
    claim,
    complete,
    deregister,
    find_missing_workers,
    gated,
    held,
    leader,
    open_again,
    operator,
    recorded,
    recover,
    settle,
    shut,
    take_beacon,
    worker,
)
from tests.races.stepping import Actor
from tests.tiers import long

LATE = workers("ab", late="a")
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
    "dead letter": (
        [settle("a", DEAD_LETTERED, 1)],
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
def test_a_worker_that_is_declared_dead_writes_before_that_or_not_at_all(arena: Arena, what: str) -> None:
    """Its earlier writes stay; its later writes are refused. It may wait for the recovery, but the recovery never
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


def test_a_loss_is_not_mistaken_for_the_late_outcome(arena: Arena) -> None:
    """The dead letter and the record of the loss have the lease. By this lease the worker checks whether its outcome
    was written."""
    race = arena.explore(
        [LATE, task(1, "running", of="a", losses=4)],
        leader(*held(recover())),
        worker("a", *held(settle("a", FAILED, 1)), recorded("a", 1)),
    )

    assert {
        "leader.recover 0, a.finish -, a.recorded -; 1 dead_letter": 2,
        "leader.recover 0, a.finish 1, a.recorded 1; 1 scheduled": 6,
    } == race.outcomes


def test_a_worker_that_beats_without_its_beacon_is_not_declared_dead(arena: Arena) -> None:
    """Its beacon was lost after its last beat. After another beat, or with its beacon back, it is not declared dead."""
    seen, beacon = datetime.now(UTC), 4711
    race = arena.explore(
        [workers("ab"), without_beacon("a", beacon, seen), *ORPHANS[1:]],
        leader(*held(find_missing_workers(), recover(beacon_lost={"a": seen}))),
        worker("a", *held(beat("a", beacon=beacon))),
        worker("a", *take_beacon("a", beacon), session="a listens"),
    )

    assert {
        "leader.recover 2, a.beat False; 1 pending, 2 pending": 22,
        "leader.recover 0, a.beat True; 1 running, 2 claimed": 102,
    } == race.outcomes
    assert {"a beat for leader", "a listens beacon for leader", "a listens beacon for a"} == race.waits


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


def test_a_worker_that_deregisters_during_a_claim_loses_the_claim(arena: Arena) -> None:
    """It deregisters, and its last claim commits afterwards. Recovery finds the task when the worker is late."""
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


MANUAL_CHANGES = {
    "cancel": (
        cancel(1),
        {
            "leader.recover 2, operator.cancel 1; 1 cancelled, 2 pending": 2,
            "leader.recover 1, operator.cancel 1; 1 cancelled, 2 pending": 3,
        },
    ),
    "requeue": (
        requeue(1),
        {
            "leader.recover 2, operator.requeue 1; 1 pending, 2 pending": 2,
            "leader.recover 1, operator.requeue 1; 1 pending, 2 pending": 3,
        },
    ),
    "delete": (
        delete(1),
        {
            "leader.recover 2, operator.delete 1; 2 pending": 2,
            "leader.recover 1, operator.delete 1; 2 pending": 3,
        },
    ),
    "priority": (
        raise_priority(),
        {
            "leader.recover 2, operator.priority 1 2; 1 pending, 2 pending": 3,
            "leader.recover 0, operator.priority 1 2; 1 pending, 2 pending": 2,
        },
    ),
}


@pytest.mark.parametrize("what", MANUAL_CHANGES)
def test_a_manual_change_succeeds_after_the_recovery(arena: Arena, what: str) -> None:
    """Recovery skips rows that a manual change locks. The manual change waits for the recovery, and then succeeds."""
    change, expected = MANUAL_CHANGES[what]

    race = arena.explore(ORPHANS, leader(*held(recover())), operator(*held(change)), afterwards=recover())

    assert expected == race.outcomes
    assert {f"operator {change.name} for leader"} == race.waits


@pytest.mark.long
def test_recover_cancel_and_finish(arena: Arena) -> None:
    """Three sessions act on one task, and another session claims. In any order, one of them ends the lease."""
    race = arena.explore(
        [LATE, task(1, "running", of="a")],
        leader(*held(recover())),
        operator(*held(cancel(1))),
        worker("a", *held(complete("a", 1))),
        worker("b", claim("b")),
        afterwards=recover(),
    )

    assert 350 < race.schedules
    assert {
        "leader.recover 1, operator.cancel 1, a.finish -, b.claim -; 1 cancelled",
        "leader.recover 1, operator.cancel 1, a.finish -, b.claim 1; 1 cancelled",
        "leader.recover 1, operator.cancel 1, a.finish 40001, b.claim -; 1 cancelled",
        "leader.recover 0, operator.cancel 1, a.finish -, b.claim -; 1 cancelled",
        "leader.recover 0, operator.cancel 1, a.finish 40001, b.claim -; 1 cancelled",
        "leader.recover 0, operator.cancel -, a.finish 1, b.claim -; 1 completed",
        "leader.recover 0, operator.cancel OR001, a.finish 1, b.claim -; 1 completed",
    } == race.outcomes.keys()


# The step in the middle, and the words in a schedule's end which show that it came first.
GATED: dict[str, tuple[Actor, str]] = {
    "beat": (worker("a", beat("a")), "a.beat True"),
    "finish": (worker("a", complete("a", 1, 2)), "a.finish 1 2"),
    "begin": (worker("a", begin("a", 2)), "a.begin 2"),
    "fail": (worker("a", settle("a", FAILED, 1)), "a.finish 1"),
    "claim": (worker("a", claim("a")), "a.claim 3"),
    "requeue": (operator(requeue(1)), "leader.recover 1"),
    "cancel": (operator(cancel(1)), "leader.recover 1"),
    "delete": (operator(delete(1)), "leader.recover 1"),
    "priority": (operator(raise_priority()), "b.claim 1 2 3"),
}


# Recovery must read the worker's row again, and that of a task that has ended or was claimed. The others are similar.
SHORT = ("beat", "finish", "claim")


@pytest.mark.parametrize("what", [what if what in SHORT else long(what) for what in GATED])
def test_a_recovery_that_is_stopped_in_the_middle_reads_the_row_again(arena: Arena, what: str) -> None:
    """It stops after its snapshot, where it reads the clock. Then its task changes, and another worker claims it."""
    arena.build_gate()
    actor, came_first = GATED[what]

    race = arena.explore(
        [*ORPHANS, task(3)],
        operator(shut(), open_again(), name="gate"),
        gated(leader(*held(recover()))),
        actor,
        worker("b", claim("b")),
        afterwards=recover(),
    )

    assert 150 == race.schedules
    assert 0 < race.count(came_first) < 150
    assert 0 == race.count("leader.recover 2", "a.beat True")
    assert "leader recover for gate" in race.waits
