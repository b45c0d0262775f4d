"""Outcomes against all changes that may void the lease: each lease ends once, and a late outcome is refused."""

import pytest

from orchestrator.task.outcome import End
from tests.races.conftest import Arena
from tests.races.manual import by_function, cancel, delete, lock, raise_priority, requeue
from tests.races.setup_rows import task, workers
from tests.races.statements import (
    CANCELLED,
    DEAD_LETTERED,
    FAILED,
    RELEASED,
    SNOOZED,
    again,
    claim,
    complete,
    finish_like_the_outbox,
    gated,
    held,
    open_again,
    operator,
    recorded,
    settle,
    shut,
    worker,
)
from tests.races.stepping import Step
from tests.tiers import long

TWO_RUN = [workers("a"), task(1, "running", of="a"), task(2, "running", of="a")]
ENDS: dict[str, End] = {
    "fail": FAILED,
    "dead letter": DEAD_LETTERED,
    "snooze": SNOOZED,
    "cancel": CANCELLED,
    "release": RELEASED,
}
MANUAL_CHANGES = {"cancel": cancel(1), "requeue": requeue(1), "delete": delete(1)}
# Each end with one manual change. All pairs, in two steps each, are in `test_every_other_outcome_is_fenced`.
SHORT = {("cancel", "cancel"), ("fail", "requeue"), ("dead letter", "delete"), ("snooze", "cancel")}
TIMED = [
    (end, change) if (end, change) in SHORT else long(end, change)
    for end in sorted(ENDS.keys() - {"release"})
    for change in MANUAL_CHANGES
]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            cancel(1),
            {
                "a.finish 1 2, operator.cancel OR001; 1 completed, 2 completed": 1,
                "a.finish 1 2, operator.cancel -; 1 completed, 2 completed": 1,
                "a.finish 40001, a.unlocked 1 2, a.then 2, operator.cancel 1; 1 cancelled, 2 completed": 1,
                "a.finish 2, operator.cancel 1; 1 cancelled, 2 completed": 1,
            },
        ),
        (
            requeue(1),
            {
                "a.finish 1 2, operator.requeue 1; 1 pending, 2 completed": 1,
                "a.finish 1 2, operator.requeue -; 1 completed, 2 completed": 1,
                "a.finish 2, operator.requeue 1; 1 pending, 2 completed": 2,
            },
        ),
        (
            delete(1),
            {
                "a.finish 1 2, operator.delete 1; 2 completed": 1,
                "a.finish 1 2, operator.delete -; 1 completed, 2 completed": 1,
                "a.finish 2, operator.delete 1; 2 completed": 2,
            },
        ),
        (
            raise_priority(),
            {
                "a.finish 1 2, operator.priority -; 1 completed, 2 completed": 2,
                "a.finish 1 2, operator.priority 1 2; 1 completed, 2 completed": 2,
            },
        ),
    ],
    ids=["cancel", "requeue", "delete", "priority"],
)
def test_the_first_of_a_finish_and_a_manual_change_wins(
    arena: Arena, change: Step, expected: dict[str, int]
) -> None:
    """Another task in the same batch is finished in any case: at once, or when the outbox tries again."""
    race = arena.explore(TWO_RUN, worker("a", *finish_like_the_outbox("a", 1, 2)), operator(*held(change)))

    assert expected == race.outcomes
    assert {f"operator {change.name} for a", "a finish for operator"} == race.waits


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            cancel(1),
            {
                "a.finish 1, operator.cancel OR001, b.claim -, b.finish -; 1 completed": 35,
                "a.finish 1, operator.cancel -, b.claim -, b.finish -; 1 completed": 35,
                "a.finish 40001, a.unlocked 1, a.then -, operator.cancel 1, b.claim -, b.finish -; 1 cancelled": 84,
                "a.finish -, operator.cancel 1, b.claim -, b.finish -; 1 cancelled": 35,
            },
        ),
        (
            requeue(1),
            {
                "a.finish 1, operator.requeue 1, b.claim 1, b.finish 1; 1 completed": 1,
                "a.finish 1, operator.requeue 1, b.claim -, b.finish -; 1 pending": 34,
                "a.finish 1, operator.requeue -, b.claim -, b.finish -; 1 completed": 35,
                "a.finish -, operator.requeue 1, b.claim 1, b.finish 1; 1 completed": 11,
                "a.finish -, operator.requeue 1, b.claim -, b.finish -; 1 pending": 59,
            },
        ),
        (
            delete(1),
            {
                "a.finish 1, operator.delete 1, b.claim -, b.finish -": 35,
                "a.finish 1, operator.delete -, b.claim -, b.finish -; 1 completed": 35,
                "a.finish -, operator.delete 1, b.claim -, b.finish -": 70,
            },
        ),
    ],
    ids=["cancel", "requeue", "delete"],
)
def test_another_worker_may_finish_a_task_that_was_requeued_manually(
    arena: Arena, change: Step, expected: dict[str, int]
) -> None:
    """A second worker claims and finishes; it gets only requeued tasks."""
    race = arena.explore(
        [workers("ab"), task(1, "running", of="a")],
        worker("a", *finish_like_the_outbox("a", 1)),
        operator(*held(change)),
        worker("b", *held(claim("b")), complete("b", 1)),
    )

    assert expected == race.outcomes


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            cancel(2),
            {
                "forgetful.lock 1, a.finish 1 2, operator.cancel OR001; 1 completed, 2 completed": 2,
                "forgetful.lock 1, a.finish 1 2, operator.cancel -; 1 completed, 2 completed": 2,
                "forgetful.lock 1, a.finish 40001, operator.cancel 2; 1 running, 2 cancelled": 14,
                "forgetful.lock 1, a.finish 1, operator.cancel 2; 1 completed, 2 cancelled": 9,
                "forgetful.lock -, a.finish 1 2, operator.cancel OR001; 1 completed, 2 completed": 9,
                "forgetful.lock -, a.finish 1 2, operator.cancel -; 1 completed, 2 completed": 7,
                "forgetful.lock -, a.finish 1, operator.cancel 2; 1 completed, 2 cancelled": 2,
            },
        ),
        (
            requeue(2),
            {
                "forgetful.lock 1, a.finish 1 2, operator.requeue 2; 1 completed, 2 pending": 2,
                "forgetful.lock 1, a.finish 1 2, operator.requeue -; 1 completed, 2 completed": 2,
                "forgetful.lock 1, a.finish 1, operator.requeue 2; 1 completed, 2 pending": 18,
                "forgetful.lock -, a.finish 1 2, operator.requeue 2; 1 completed, 2 pending": 9,
                "forgetful.lock -, a.finish 1 2, operator.requeue -; 1 completed, 2 completed": 7,
                "forgetful.lock -, a.finish 1, operator.requeue 2; 1 completed, 2 pending": 5,
            },
        ),
        (
            delete(2),
            {
                "forgetful.lock 1, a.finish 1 2, operator.delete 2; 1 completed": 2,
                "forgetful.lock 1, a.finish 1 2, operator.delete -; 1 completed, 2 completed": 2,
                "forgetful.lock 1, a.finish 1, operator.delete 2; 1 completed": 18,
                "forgetful.lock -, a.finish 1 2, operator.delete 2; 1 completed": 9,
                "forgetful.lock -, a.finish 1 2, operator.delete -; 1 completed, 2 completed": 7,
                "forgetful.lock -, a.finish 1, operator.delete 2; 1 completed": 5,
            },
        ),
        (
            raise_priority("id = 2"),
            {
                "forgetful.lock 1, a.finish 1 2, operator.priority 2; 1 completed, 2 completed": 18,
                "forgetful.lock 1, a.finish 1 2, operator.priority OR001; 1 completed, 2 completed": 2,
                "forgetful.lock 1, a.finish 1 2, operator.priority -; 1 completed, 2 completed": 2,
                "forgetful.lock -, a.finish 1 2, operator.priority 2; 1 completed, 2 completed": 5,
                "forgetful.lock -, a.finish 1 2, operator.priority OR001; 1 completed, 2 completed": 9,
                "forgetful.lock -, a.finish 1 2, operator.priority -; 1 completed, 2 completed": 7,
            },
        ),
    ],
    ids=["cancel", "requeue", "delete", "priority"],
)
def test_a_finish_that_waits_for_a_lock_sees_the_changes(
    arena: Arena, change: Step, expected: dict[str, int]
) -> None:
    """A lock on the first task delays the statement after its snapshot. Meanwhile a manual change takes the second task
    away."""
    race = arena.explore(
        TWO_RUN,
        operator(*held(lock(1)), name="forgetful"),
        worker("a", *held(complete("a", 1, 2))),
        operator(*held(change)),
    )

    assert expected == race.outcomes
    assert "a finish for forgetful" in race.waits


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("change", [cancel(1), requeue(1), delete(1)], ids=["cancel", "requeue", "delete"])
def test_every_other_outcome_is_fenced(arena: Arena, end: str, change: Step) -> None:
    """Failure, snooze and the rest: accepted before the commit of the manual change, refused after it."""
    race = arena.explore(
        [workers("a"), task(1, "running", of="a")],
        worker("a", *held(settle("a", ENDS[end], 1))),
        operator(*held(change)),
    )

    assert (2, 4) == (race.count("a.finish 1"), race.schedules)
    assert {f"operator {change.name} for a", "a finish for operator"} == race.waits


@pytest.mark.parametrize(("end", "change"), TIMED)
def test_an_end_that_is_stopped_in_the_middle_is_fenced_off(arena: Arena, end: str, change: str) -> None:
    """It stops when it has found its row, where it reads the clock. The row changes, and another worker claims it."""
    arena.build_gate()

    race = arena.explore(
        [workers("ab"), task(1, "running", of="a")],
        operator(shut(), open_again(), name="gate"),
        gated(worker("a", settle("a", ENDS[end], 1))),
        operator(MANUAL_CHANGES[change]),
        worker("b", claim("b")),
    )

    assert 60 == race.schedules
    assert 0 < race.count("a.finish 1") < 60
    assert "a finish for gate" in race.waits


def test_a_finish_skips_rows_under_an_open_manual_update(arena: Arena) -> None:
    """With a worker's lock_timeout (5 ms here) it stops waiting, and finishes the rows that are not locked."""
    race = arena.explore(
        [*TWO_RUN, task(3, "running", of="a")],
        worker("a", *finish_like_the_outbox("a", 1, 2, 3), settings=b"SET lock_timeout = '5ms'"),
        operator(*held(raise_priority("id > 1"))),
    )

    assert {
        "a.finish 1 2 3, operator.priority 2 3; 1 completed, 2 completed, 3 completed": 1,
        "a.finish 1 2 3, operator.priority OR001; 1 completed, 2 completed, 3 completed": 1,
        "a.finish 1 2 3, operator.priority -; 1 completed, 2 completed, 3 completed": 1,
        "a.finish 55P03, a.unlocked 1, a.then 1, operator.priority 2 3; 1 completed, 2 running, 3 running": 3,
        "a.finish 55P03, a.unlocked 1 2 3, a.then 1 2 3, operator.priority 2 3;"
        " 1 completed, 2 completed, 3 completed": 1,
    } == race.outcomes


def test_a_deadlock_of_a_finish_and_a_manual_change_ends_one_of_them(arena: Arena) -> None:
    """No outcome is lost, and no batch is written in part."""
    race = arena.explore(
        TWO_RUN,
        worker("a", *finish_like_the_outbox("a", 1, 2)),
        operator(*held(raise_priority("id = 2"), again(raise_priority("id = 1")))),
    )

    # PostgreSQL ends the session that detects the deadlock first. The number of remaining steps depends on which it is.
    assert race.schedules in (6, 7)
    assert race.schedules == race.count("completed, 2 completed") + race.count("running, 2 running")
    assert race.count("a.finish 40P01") or race.count("operator.priority again 40P01")


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
        [workers("a"), task(1, "running", of="a")],
        worker("a", *held(settle("a", FAILED, 1)), session="a before"),
        worker("a", *held(settle("a", FAILED, 1)), recorded("a", 1), session="a after"),
    )

    assert {
        "a before.finish 1, a after.finish -, a after.recorded 1; 1 scheduled": 2,
        "a before.finish -, a after.finish 1, a after.recorded 1; 1 scheduled": 5,
    } == race.outcomes


def test_a_released_lease_is_not_finished_too(arena: Arena) -> None:
    """A claim that is mistaken for a ghost is released while its task finishes: only one of the two writes succeeds."""
    race = arena.explore(
        [workers("ab"), task(1, "running", of="a")],
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
    """It waits for the finish, after which the row is in another leaf. It reads again, and finds the row."""
    race = arena.explore(
        [workers("a"), task(1, "running", of="a")],
        worker("a", *held(complete("a", 1))),
        operator(*held(by_function(function, 1))),
    )

    assert 0 == race.count("OR004")
