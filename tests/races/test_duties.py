"""The leader's other duties against workers, manual changes, and a second leader that believes that it leads.

A duty changes only rows that it has locked. It skips rows that another session has locked, or has changed since the
duty read them.
"""

import pytest

from tests.races.conftest import Arena
from tests.races.manual import cancel, delete, enqueue, requeue
from tests.races.setup_rows import key, task, workers
from tests.races.statements import (
    FAILED,
    claim,
    complete,
    gated,
    held,
    leader,
    open_again,
    operator,
    purge,
    recorded,
    recover,
    settle,
    shut,
    timeouts,
    worker,
)
from tests.races.stepping import Actor
from tests.tiers import long

OVERDUE = [workers("ab"), task(1, "running", of="a", started_at="now - 1 hour")]
DEAD_LETTERS = [workers("a"), task(1, "dead_letter", of="a", finished_at="now - 100 days")]

OTHERS: dict[str, tuple[Actor, dict[str, int]]] = {
    "finish": (
        worker("a", *held(complete("a", 1))),
        {
            "leader.timeouts 1, a.finish -; 1 scheduled": 2,
            "leader.timeouts 0, a.finish 1; 1 completed": 3,
        },
    ),
    "fail": (
        worker("a", *held(settle("a", FAILED, 1))),
        {
            "leader.timeouts 1, a.finish -; 1 scheduled": 2,
            "leader.timeouts 0, a.finish 1; 1 scheduled": 3,
        },
    ),
    "requeue": (
        operator(*held(requeue(1))),
        {
            "leader.timeouts 1, operator.requeue 1; 1 pending": 2,
            "leader.timeouts 0, operator.requeue 1; 1 pending": 3,
        },
    ),
    "cancel": (
        operator(*held(cancel(1))),
        {
            "leader.timeouts 1, operator.cancel 1; 1 cancelled": 2,
            "leader.timeouts 0, operator.cancel 1; 1 cancelled": 3,
        },
    ),
    "delete": (
        operator(*held(delete(1))),
        {
            "leader.timeouts 1, operator.delete 1": 2,
            "leader.timeouts 0, operator.delete 1": 3,
        },
    ),
    "timeouts": (
        leader(*held(timeouts()), name="other"),
        {
            "leader.timeouts 1, other.timeouts 0; 1 scheduled": 3,
            "leader.timeouts 0, other.timeouts 1; 1 scheduled": 3,
        },
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_timeout_and_another_end_are_never_both_counted(arena: Arena, what: str) -> None:
    """The first one ends the attempt. The duty never waits."""
    actor, expected = OTHERS[what]

    race = arena.explore(OVERDUE, leader(*held(timeouts())), actor)

    assert expected == race.outcomes
    assert not [wait for wait in race.waits if wait.startswith("leader")]


@pytest.mark.parametrize("what", [what if what in ("finish", "timeouts") else long(what) for what in OTHERS])
def test_timeouts_that_are_stopped_in_the_middle_read_the_row_again(arena: Arena, what: str) -> None:
    """The attempt ends, and the task runs again under another lease. The old start does not end the new attempt."""
    arena.build_gate()

    race = arena.explore(
        OVERDUE,
        operator(shut(), open_again(), name="gate"),
        gated(leader(timeouts())),
        OTHERS[what][0],
        worker("b", claim("b")),
    )

    assert race.schedules > 150
    assert "leader timeouts for gate" in race.waits
    assert 0 < race.count("leader.timeouts 1") < race.schedules


def test_a_timeout_and_a_loss_are_one_end(arena: Arena) -> None:
    """Two threads of the leader act on one task. Both its worker and the task are late. Only recovery ends the
    attempt, because the worker may hold an outcome that it could not write."""
    race = arena.explore(
        [workers("ab", late="a"), *OVERDUE[1:]],
        leader(*held(timeouts())),
        leader(*held(recover()), name="other"),
        afterwards=recover(),
    )

    assert {
        "leader.timeouts 0, other.recover 1; 1 pending": 6,
    } == race.outcomes
    assert set() == race.waits


def test_a_timeout_is_not_mistaken_for_the_late_outcome(arena: Arena) -> None:
    """By its lease, the worker checks whether its outcome was written."""
    race = arena.explore(
        OVERDUE,
        leader(*held(timeouts())),
        worker("a", *held(settle("a", FAILED, 1)), recorded("a", 1)),
    )

    assert {
        "leader.timeouts 1, a.finish -, a.recorded -; 1 scheduled": 2,
        "leader.timeouts 0, a.finish 1, a.recorded 1; 1 scheduled": 6,
    } == race.outcomes


def test_a_dead_letter_is_requeued_or_removed(arena: Arena) -> None:
    """Retention runs during an operator's requeue. The second one waits; then the task is gone, or it runs again."""
    race = arena.explore(DEAD_LETTERS, leader(*held(purge("dead_letters"))), operator(*held(requeue(1))))

    assert {
        "leader.purge 1, operator.requeue -": 2,
        "leader.purge 0, operator.requeue 1; 1 pending": 3,
    } == race.outcomes


def test_retention_that_is_stopped_in_the_middle_removes_no_pending_task(arena: Arena) -> None:
    """The requeued row has left the table. At worst the duty fails with 40001, and runs again."""
    arena.build_gate()

    race = arena.explore(
        DEAD_LETTERS,
        operator(shut(), open_again(), name="gate"),
        gated(leader(purge("dead_letters"))),
        operator(requeue(1)),
        worker("a", claim("a"), complete("a", 1)),
    )

    assert {
        "leader.purge 1, operator.requeue -, a.claim -, a.finish -": 75,
        "leader.purge 0, operator.requeue 1, a.claim 1, a.finish 1; 1 completed": 45,
        "leader.purge 0, operator.requeue 1, a.claim -, a.finish -; 1 pending": 45,
        "leader.purge 40001, operator.requeue 1, a.claim 1, a.finish 1; 1 completed": 3,
        "leader.purge 40001, operator.requeue 1, a.claim -, a.finish -; 1 pending": 12,
    } == race.outcomes
    assert "leader purge for gate" in race.waits


def test_an_expired_key_is_removed_and_taken(arena: Arena) -> None:
    """Retention removes it, and two producers take it. In the end one task has it."""
    race = arena.explore(
        [workers("a"), task(1, idempotency_key="k"), key("k", 1, expires="now - 1 hour")],
        leader(*held(purge("keys"))),
        operator(*held(enqueue()), name="p"),
        operator(*held(enqueue()), name="q"),
    )

    agreed = [race.count(f"p.enqueue {task_id}", f"q.enqueue {task_id}") for task_id in (11, 12)]
    assert sum(agreed) == race.schedules > 30
    assert 0 < race.count("leader.purge 1") < race.schedules


def test_a_worker_row_is_deleted_and_its_last_claim_is_taken_back(arena: Arena) -> None:
    """Its row is deleted during one of its claims. A worker without a row is dead, so its task is taken back."""
    race = arena.explore(
        [
            workers("a", late="a"),
            "UPDATE orchestrator.workers SET beat_at = now() - interval '1 year'",
            task(1),
        ],
        worker("a", *held(claim("a"))),
        leader(*held(recover()), purge("workers")),
        afterwards=recover(),
    )

    assert {
        "a.claim 1, leader.recover 1, leader.purge 1; 1 pending": 1,
        "a.claim 1, leader.recover 0, leader.purge 0; 1 pending": 4,
        "a.claim 1, leader.recover 0, leader.purge 1; 1 pending": 2,
        "a.claim -, leader.recover 0, leader.purge 1; 1 pending": 3,
    } == race.outcomes
    assert set() == race.waits
