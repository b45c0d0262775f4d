"""Outcomes against everything that may take the task away meanwhile: each lease ends once, and a late outcome is
refused."""

import pytest

from orchestrator.task.outcome import End
from tests.races.conftest import Arena
from tests.races.manual import by_function, cancel, delete, lock, raise_priority, requeue
from tests.races.setup_rows import crew, task
from tests.races.statements import (
    CANCELLED,
    FAILED,
    GIVEN_UP,
    RELEASED,
    SNOOZED,
    again,
    claim,
    complete,
    gated,
    hand,
    held,
    open_again,
    patiently,
    recorded,
    settle,
    shut,
    worker,
)
from tests.races.stepping import Step
from tests.tiers import long

TWO_RUN = [crew("a"), task(1, "running", of="a"), task(2, "running", of="a")]
ENDS: dict[str, End] = {
    "fail": FAILED,
    "give up": GIVEN_UP,
    "snooze": SNOOZED,
    "cancel": CANCELLED,
    "release": RELEASED,
}
HAND = {"cancel": cancel(1), "requeue": requeue(1), "delete": delete(1)}
# Each end with one update by hand; all pairs, in two steps each, are in `test_every_other_end_is_fenced_alike`.
SHORT = {("cancel", "cancel"), ("fail", "requeue"), ("give up", "delete"), ("snooze", "cancel")}
TIMED = [
    (end, wish) if (end, wish) in SHORT else long(end, wish)
    for end in sorted(ENDS.keys() - {"release"})
    for wish in HAND
]


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (
            cancel(1),
            {
                "a.finish 1 2, hand.cancel OR001; 1 completed, 2 completed": 1,
                "a.finish 1 2, hand.cancel -; 1 completed, 2 completed": 1,
                "a.finish 40001, a.unlocked 1 2, a.then 2, hand.cancel 1; 1 cancelled, 2 completed": 1,
                "a.finish 2, hand.cancel 1; 1 cancelled, 2 completed": 1,
            },
        ),
        (
            requeue(1),
            {
                "a.finish 1 2, hand.requeue 1; 1 pending, 2 completed": 1,
                "a.finish 1 2, hand.requeue -; 1 completed, 2 completed": 1,
                "a.finish 2, hand.requeue 1; 1 pending, 2 completed": 2,
            },
        ),
        (
            delete(1),
            {
                "a.finish 1 2, hand.delete 1; 2 completed": 1,
                "a.finish 1 2, hand.delete -; 1 completed, 2 completed": 1,
                "a.finish 2, hand.delete 1; 2 completed": 2,
            },
        ),
        (
            raise_priority(),
            {
                "a.finish 1 2, hand.priority -; 1 completed, 2 completed": 2,
                "a.finish 1 2, hand.priority 1 2; 1 completed, 2 completed": 2,
            },
        ),
    ],
    ids=["cancel", "requeue", "delete", "priority"],
)
def test_of_a_finish_and_a_manual_change_the_first_wins(
    arena: Arena, wish: Step, expected: dict[str, int]
) -> None:
    """Another task in the same batch is finished in any case: at once, or when the outbox tries again."""
    race = arena.explore(TWO_RUN, worker("a", *patiently("a", 1, 2)), hand(*held(wish)))

    assert expected == race.outcomes
    assert {f"hand {wish.name} for a", "a finish for hand"} == race.waits


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (
            cancel(1),
            {
                "a.finish 1, hand.cancel OR001, b.claim -, b.finish -; 1 completed": 35,
                "a.finish 1, hand.cancel -, b.claim -, b.finish -; 1 completed": 35,
                "a.finish 40001, a.unlocked 1, a.then -, hand.cancel 1, b.claim -, b.finish -; 1 cancelled": 84,
                "a.finish -, hand.cancel 1, b.claim -, b.finish -; 1 cancelled": 35,
            },
        ),
        (
            requeue(1),
            {
                "a.finish 1, hand.requeue 1, b.claim 1, b.finish 1; 1 completed": 1,
                "a.finish 1, hand.requeue 1, b.claim -, b.finish -; 1 pending": 34,
                "a.finish 1, hand.requeue -, b.claim -, b.finish -; 1 completed": 35,
                "a.finish -, hand.requeue 1, b.claim 1, b.finish 1; 1 completed": 11,
                "a.finish -, hand.requeue 1, b.claim -, b.finish -; 1 pending": 59,
            },
        ),
        (
            delete(1),
            {
                "a.finish 1, hand.delete 1, b.claim -, b.finish -": 35,
                "a.finish 1, hand.delete -, b.claim -, b.finish -; 1 completed": 35,
                "a.finish -, hand.delete 1, b.claim -, b.finish -": 70,
            },
        ),
    ],
    ids=["cancel", "requeue", "delete"],
)
def test_another_worker_may_finish_a_task_that_was_requeued_manually(
    arena: Arena, wish: Step, expected: dict[str, int]
) -> None:
    """A second worker claims and finishes all the time; it gets only requeued tasks."""
    race = arena.explore(
        [crew("ab"), task(1, "running", of="a")],
        worker("a", *patiently("a", 1)),
        hand(*held(wish)),
        worker("b", *held(claim("b")), complete("b", 1)),
    )

    assert expected == race.outcomes


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (
            cancel(2),
            {
                "forgetful.lock 1, a.finish 1 2, hand.cancel OR001; 1 completed, 2 completed": 2,
                "forgetful.lock 1, a.finish 1 2, hand.cancel -; 1 completed, 2 completed": 2,
                "forgetful.lock 1, a.finish 40001, hand.cancel 2; 1 running, 2 cancelled": 14,
                "forgetful.lock 1, a.finish 1, hand.cancel 2; 1 completed, 2 cancelled": 9,
                "forgetful.lock -, a.finish 1 2, hand.cancel OR001; 1 completed, 2 completed": 9,
                "forgetful.lock -, a.finish 1 2, hand.cancel -; 1 completed, 2 completed": 7,
                "forgetful.lock -, a.finish 1, hand.cancel 2; 1 completed, 2 cancelled": 2,
            },
        ),
        (
            requeue(2),
            {
                "forgetful.lock 1, a.finish 1 2, hand.requeue 2; 1 completed, 2 pending": 2,
                "forgetful.lock 1, a.finish 1 2, hand.requeue -; 1 completed, 2 completed": 2,
                "forgetful.lock 1, a.finish 1, hand.requeue 2; 1 completed, 2 pending": 18,
                "forgetful.lock -, a.finish 1 2, hand.requeue 2; 1 completed, 2 pending": 9,
                "forgetful.lock -, a.finish 1 2, hand.requeue -; 1 completed, 2 completed": 7,
                "forgetful.lock -, a.finish 1, hand.requeue 2; 1 completed, 2 pending": 5,
            },
        ),
        (
            delete(2),
            {
                "forgetful.lock 1, a.finish 1 2, hand.delete 2; 1 completed": 2,
                "forgetful.lock 1, a.finish 1 2, hand.delete -; 1 completed, 2 completed": 2,
                "forgetful.lock 1, a.finish 1, hand.delete 2; 1 completed": 18,
                "forgetful.lock -, a.finish 1 2, hand.delete 2; 1 completed": 9,
                "forgetful.lock -, a.finish 1 2, hand.delete -; 1 completed, 2 completed": 7,
                "forgetful.lock -, a.finish 1, hand.delete 2; 1 completed": 5,
            },
        ),
        (
            raise_priority("id = 2"),
            {
                "forgetful.lock 1, a.finish 1 2, hand.priority 2; 1 completed, 2 completed": 18,
                "forgetful.lock 1, a.finish 1 2, hand.priority OR001; 1 completed, 2 completed": 2,
                "forgetful.lock 1, a.finish 1 2, hand.priority -; 1 completed, 2 completed": 2,
                "forgetful.lock -, a.finish 1 2, hand.priority 2; 1 completed, 2 completed": 5,
                "forgetful.lock -, a.finish 1 2, hand.priority OR001; 1 completed, 2 completed": 9,
                "forgetful.lock -, a.finish 1 2, hand.priority -; 1 completed, 2 completed": 7,
            },
        ),
    ],
    ids=["cancel", "requeue", "delete", "priority"],
)
def test_a_finish_that_waits_for_a_lock_sees_the_changes(
    arena: Arena, wish: Step, expected: dict[str, int]
) -> None:
    """A lock on the first task delays the statement after it has taken its snapshot, and meanwhile the second task
    is taken away."""
    race = arena.explore(
        TWO_RUN,
        hand(*held(lock(1)), name="forgetful"),
        worker("a", *held(complete("a", 1, 2))),
        hand(*held(wish)),
    )

    assert expected == race.outcomes
    assert "a finish for forgetful" in race.waits


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("wish", [cancel(1), requeue(1), delete(1)], ids=["cancel", "requeue", "delete"])
def test_every_other_end_is_fenced_alike(arena: Arena, end: str, wish: Step) -> None:
    """Failure, snooze and the rest: accepted before the commit of the manual change, refused after it."""
    race = arena.explore(
        [crew("a"), task(1, "running", of="a")],
        worker("a", *held(settle("a", ENDS[end], 1))),
        hand(*held(wish)),
    )

    assert (2, 4) == (race.count("a.finish 1"), race.schedules)
    assert {f"hand {wish.name} for a", "a finish for hand"} == race.waits


@pytest.mark.parametrize(("end", "wish"), TIMED)
def test_an_end_that_is_stopped_in_the_middle_is_fenced(arena: Arena, end: str, wish: str) -> None:
    """It has found its row and reads the clock; then the row changes, and another worker claims it."""
    arena.build_gate()

    race = arena.explore(
        [crew("ab"), task(1, "running", of="a")],
        hand(shut(), open_again(), name="gate"),
        gated(worker("a", settle("a", ENDS[end], 1))),
        hand(HAND[wish]),
        worker("b", claim("b")),
    )

    assert 60 == race.schedules
    assert 0 < race.count("a.finish 1") < 60
    assert "a finish for gate" in race.waits


def test_a_finish_skips_rows_under_an_open_manual_update(arena: Arena) -> None:
    """With a worker's lock_timeout (5 ms here) it stops waiting, and finishes the rows that are not locked."""
    race = arena.explore(
        [*TWO_RUN, task(3, "running", of="a")],
        worker("a", *patiently("a", 1, 2, 3), settings=b"SET lock_timeout = '5ms'"),
        hand(*held(raise_priority("id > 1"))),
    )

    assert {
        "a.finish 1 2 3, hand.priority 2 3; 1 completed, 2 completed, 3 completed": 1,
        "a.finish 1 2 3, hand.priority OR001; 1 completed, 2 completed, 3 completed": 1,
        "a.finish 1 2 3, hand.priority -; 1 completed, 2 completed, 3 completed": 1,
        "a.finish 55P03, a.unlocked 1, a.then 1, hand.priority 2 3; 1 completed, 2 running, 3 running": 3,
        "a.finish 55P03, a.unlocked 1 2 3, a.then 1 2 3, hand.priority 2 3; 1 completed, 2 completed, 3 completed": 1,
    } == race.outcomes


def test_of_a_finish_and_a_manual_change_in_a_deadlock_one_gives_way(arena: Arena) -> None:
    """Nothing is lost, and nothing is half done."""
    race = arena.explore(
        TWO_RUN,
        worker("a", *patiently("a", 1, 2)),
        hand(*held(raise_priority("id = 2"), again(raise_priority("id = 1")))),
    )

    # Of two who wait for each other PostgreSQL ends whichever looks first: how many steps are left hangs on it.
    assert race.schedules in (6, 7)
    assert race.schedules == race.count("completed, 2 completed") + race.count("running, 2 running")
    assert race.count("a.finish 40P01") or race.count("hand.priority again 40P01")


def test_an_outcome_sent_twice_is_written_once(arena: Arena) -> None:
    """The connection broke, its backend has not noticed, and the outcome is sent again: one of the two is accepted."""
    race = arena.explore(
        TWO_RUN,
        worker("a", *held(complete("a", 1, 2)), session="a before"),
        worker("a", *held(complete("a", 1, 2)), recorded("a", 1, 2), session="a after"),
    )

    assert {
        "a before.finish 1 2, a after.finish -, a after.recorded 1 2; 1 completed, 2 completed": 2,
        "a before.finish -, a after.finish 1 2, a after.recorded 1 2; 1 completed, 2 completed": 5,
    } == race.outcomes


def test_a_failure_sent_twice_is_written_once(arena: Arena) -> None:
    """It is recorded once, and the attempt is charged once."""
    race = arena.explore(
        [crew("a"), task(1, "running", of="a")],
        worker("a", *held(settle("a", FAILED, 1)), session="a before"),
        worker("a", *held(settle("a", FAILED, 1)), recorded("a", 1), session="a after"),
    )

    assert {
        "a before.finish 1, a after.finish -, a after.recorded 1; 1 scheduled": 2,
        "a before.finish -, a after.finish 1, a after.recorded 1; 1 scheduled": 5,
    } == race.outcomes


def test_a_lease_that_is_given_back_is_not_finished_too(arena: Arena) -> None:
    """A claim taken for a ghost is released while its task is being finished: only one of the two succeeds."""
    race = arena.explore(
        [crew("ab"), task(1, "running", of="a")],
        worker("a", *held(settle("a", RELEASED, 1)), session="a releases"),
        worker("a", *held(complete("a", 1))),
        worker("b", claim("b"), complete("b", 1)),
    )

    assert {
        "a releases.finish 1, a.finish -, b.claim 1, b.finish 1; 1 completed": 7,
        "a releases.finish 1, a.finish -, b.claim -, b.finish -; 1 pending": 23,
        "a releases.finish -, a.finish 1, b.claim -, b.finish -; 1 completed": 30,
    } == race.outcomes


@pytest.mark.parametrize("function", ["cancel", "requeue"])
def test_a_function_never_reports_a_finished_task_as_missing(arena: Arena, function: str) -> None:
    """It waited for the finish, and the row is in another leaf now: a second look finds it."""
    race = arena.explore(
        [crew("a"), task(1, "running", of="a")],
        worker("a", *held(complete("a", 1))),
        hand(*held(by_function(function, 1))),
    )

    assert 0 == race.count("OR004")
