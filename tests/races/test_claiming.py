"""Claims and starts against each other and against manual changes: a task is claimed once, and a claim never waits."""

import pytest

from tests.races.conftest import Arena
from tests.races.manual import cancel, pause, raise_priority, requeue, run_at
from tests.races.setup_rows import task, workers
from tests.races.statements import begin, claim, complete, ghosts, held, operator, release_ghosts, worker
from tests.races.stepping import Step


def test_two_claims_share_no_task(arena: Arena) -> None:
    """One task, two workers: one gets it, the other gets none, and neither waits."""
    race = arena.explore(
        [workers("ab"), task(1)],
        worker("a", *held(claim("a"))),
        worker("b", *held(claim("b"))),
    )

    assert {"a.claim 1, b.claim -; 1 claimed": 3, "a.claim -, b.claim 1; 1 claimed": 3} == race.outcomes
    assert set() == race.waits


def test_three_claims_share_two_tasks(arena: Arena) -> None:
    """In any order. A claim that finds no task does not wait for tasks that other workers may release."""
    race = arena.explore(
        [workers("abc"), task(1), task(2)],
        *(worker(name, *held(claim(name, batch_size=1))) for name in "abc"),
    )

    assert {
        "a.claim 1, b.claim 2, c.claim -; 1 claimed, 2 claimed": 15,
        "a.claim 1, b.claim -, c.claim 2; 1 claimed, 2 claimed": 15,
        "a.claim 2, b.claim 1, c.claim -; 1 claimed, 2 claimed": 15,
        "a.claim -, b.claim 1, c.claim 2; 1 claimed, 2 claimed": 15,
        "a.claim 2, b.claim -, c.claim 1; 1 claimed, 2 claimed": 15,
        "a.claim -, b.claim 2, c.claim 1; 1 claimed, 2 claimed": 15,
    } == race.outcomes
    assert set() == race.waits


def test_two_claims_of_two_queues_share_nothing(arena: Arena) -> None:
    """Each begins with another queue and may take from both: neither waits, and no task is left."""
    race = arena.explore(
        [workers("ab"), *(task(n, queue=queue) for n, queue in enumerate("xxyy", 1))],
        worker("a", *held(claim("a", queues="xy", batch_size=3))),
        worker("b", *held(claim("b", queues="yx", batch_size=3))),
    )

    assert {
        "a.claim 1 2 3, b.claim 4; 1 claimed, 2 claimed, 3 claimed, 4 claimed": 3,
        "a.claim 2, b.claim 1 3 4; 1 claimed, 2 claimed, 3 claimed, 4 claimed": 3,
    } == race.outcomes
    assert set() == race.waits


def test_a_requeue_takes_the_task_from_one_worker_and_gives_it_to_another(arena: Arena) -> None:
    """The worker that runs it is fenced off, or has finished before. The next claim gets it only after the commit of
    the requeue."""
    race = arena.explore(
        [workers("ab"), task(1, "running", of="b")],
        worker("a", *held(claim("a")), complete("a", 1)),
        worker("b", *held(complete("b", 1))),
        operator(*held(requeue(1))),
    )

    assert {
        "a.claim -, a.finish -, b.finish 1, operator.requeue 1; 1 pending": 34,
        "a.claim -, a.finish -, b.finish 1, operator.requeue -; 1 completed": 35,
        "a.claim -, a.finish -, b.finish -, operator.requeue 1; 1 pending": 59,
        "a.claim 1, a.finish 1, b.finish 1, operator.requeue 1; 1 completed": 1,
        "a.claim 1, a.finish 1, b.finish -, operator.requeue 1; 1 completed": 11,
    } == race.outcomes
    assert {"b finish for operator", "operator requeue for b"} == race.waits


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            cancel(1),
            {
                "a.claim 1 2, operator.cancel 1; 1 cancelled, 2 claimed": 2,
                "a.claim 2, operator.cancel 1; 1 cancelled, 2 claimed": 3,
            },
        ),
        (
            requeue(1),
            {
                "a.claim 1 2, operator.requeue 1; 1 pending, 2 claimed": 2,
                "a.claim 2, operator.requeue 1; 1 pending, 2 claimed": 2,
                "a.claim 1 2, operator.requeue 1; 1 claimed, 2 claimed": 1,
            },
        ),
        (
            raise_priority("status = 'pending'"),
            {
                "a.claim 1 2, operator.priority -; 1 claimed, 2 claimed": 2,
                "a.claim -, operator.priority 1 2; 1 pending, 2 pending": 2,
                "a.claim 1 2, operator.priority 1 2; 1 claimed, 2 claimed": 1,
            },
        ),
        (
            run_at(1, hours=1),
            {
                "a.claim 1 2, operator.run_at OR001; 1 claimed, 2 claimed": 2,
                "a.claim 2, operator.run_at 1; 1 scheduled, 2 claimed": 3,
            },
        ),
    ],
    ids=["cancel", "requeue", "priority", "run_at"],
)
def test_a_claim_skips_rows_that_a_manual_change_locks(
    arena: Arena, change: Step, expected: dict[str, int]
) -> None:
    """The manual change waits for the claim's commit, looks again, and then succeeds or gets an error."""
    race = arena.explore(
        [workers("a"), task(1), task(2)],
        worker("a", *held(claim("a"))),
        operator(*held(change)),
    )

    assert expected == race.outcomes
    assert {f"operator {change.name} for a"} == race.waits


def test_a_pause_takes_effect_at_its_commit(arena: Arena) -> None:
    """An earlier claim does not wait for it, and does not see it."""
    race = arena.explore(
        [workers("a"), task(1)],
        worker("a", *held(claim("a"))),
        operator(*held(pause())),
    )

    assert {
        "a.claim 1, operator.pause paused; 1 claimed": 5,
        "a.claim -, operator.pause paused; 1 pending": 1,
    } == race.outcomes
    assert set() == race.waits


def test_a_cancelled_task_does_not_start_and_a_started_one_is_fenced_off(arena: Arena) -> None:
    """The first commit wins. A start never waits for a manual change; it skips the task."""
    race = arena.explore(
        [workers("a"), task(1, "claimed", of="a")],
        worker("a", *held(begin("a", 1)), complete("a", 1)),
        operator(*held(cancel(1))),
    )

    assert {
        "a.begin 1, a.finish 1, operator.cancel OR001; 1 completed": 1,
        "a.begin 1, a.finish 40001, operator.cancel 1; 1 cancelled": 2,
        "a.begin 1, a.finish -, operator.cancel 1; 1 cancelled": 2,
        "a.begin -, a.finish 40001, operator.cancel 1; 1 cancelled": 1,
        "a.begin -, a.finish -, operator.cancel 1; 1 cancelled": 3,
    } == race.outcomes
    assert {"operator cancel for a", "a finish for operator"} == race.waits


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            cancel(1),
            {
                "a.claim 1, a.begin 1, a.finish 1, operator.cancel OR001; 1 completed": 1,
                "a.claim 1, a.begin 1, a.finish 1, operator.cancel -; 1 completed": 1,
                "a.claim 1, a.begin 1, a.finish 40001, operator.cancel 1; 1 cancelled": 2,
                "a.claim 1, a.begin 1, a.finish -, operator.cancel 1; 1 cancelled": 2,
                "a.claim 1, a.begin -, a.finish 40001, operator.cancel 1; 1 cancelled": 2,
                "a.claim 1, a.begin -, a.finish -, operator.cancel 1; 1 cancelled": 6,
                "a.claim -, a.begin -, a.finish -, operator.cancel 1; 1 cancelled": 7,
            },
        ),
        (
            requeue(1),
            {
                "a.claim 1, a.begin 1, a.finish 1, operator.requeue 1; 1 pending": 1,
                "a.claim 1, a.begin 1, a.finish 1, operator.requeue -; 1 completed": 1,
                "a.claim 1, a.begin 1, a.finish -, operator.requeue 1; 1 pending": 4,
                "a.claim 1, a.begin -, a.finish -, operator.requeue 1; 1 pending": 8,
                "a.claim -, a.begin -, a.finish -, operator.requeue 1; 1 pending": 6,
                "a.claim 1, a.begin 1, a.finish 1, operator.requeue 1; 1 completed": 1,
            },
        ),
    ],
    ids=["cancel", "requeue"],
)
def test_a_manual_change_may_end_an_attempt_between_any_two_statements(
    arena: Arena, change: Step, expected: dict[str, int]
) -> None:
    """Claim, start and finish, and a manual change between any two of their statements."""
    race = arena.explore(
        [workers("a"), task(1)],
        worker("a", *held(claim("a")), *held(begin("a", 1)), *held(complete("a", 1))),
        operator(*held(change)),
    )

    assert expected == race.outcomes
    assert {f"operator {change.name} for a", "a finish for operator"} == race.waits


def test_a_claim_that_is_mistaken_for_a_ghost_is_released_or_started(arena: Arena) -> None:
    """The beat finds the claim, and releases it before the claim's answer arrives. The second write is refused."""
    race = arena.explore(
        [workers("ab"), task(1)],
        worker("a", *held(claim("a")), begin("a", 1), complete("a", 1)),
        worker("a", ghosts("a"), release_ghosts("a"), session="a beats"),
        worker("b", claim("b")),
    )

    assert {
        "a.claim 1, a.begin 1, a.finish 1, a beats.look -, b.claim -; 1 completed": 54,
        "a.claim 1, a.begin 1, a.finish 1, a beats.look 1, a beats.finish -, b.claim -; 1 completed": 12,
        "a.claim 1, a.begin 1, a.finish -, a beats.look 1, a beats.finish 1, b.claim 1; 1 claimed": 4,
        "a.claim 1, a.begin 1, a.finish -, a beats.look 1, a beats.finish 1, b.claim -; 1 pending": 8,
        "a.claim 1, a.begin -, a.finish -, a beats.look 1, a beats.finish 1, b.claim 1; 1 claimed": 3,
        "a.claim 1, a.begin -, a.finish -, a beats.look 1, a beats.finish 1, b.claim -; 1 pending": 3,
        "a.claim -, a.begin -, a.finish -, a beats.look -, b.claim 1; 1 claimed": 21,
    } == race.outcomes
    assert set() == race.waits
