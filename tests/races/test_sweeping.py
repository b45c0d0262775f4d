"""Sweeps against each other, and against manual changes: a due task becomes pending once, or not at all."""

import pytest

from tests.races.conftest import Arena
from tests.races.manual import cancel, delete, raise_priority, requeue, run_at
from tests.races.setup_rows import task, workers
from tests.races.statements import claim, gated, held, open_again, operator, shut, sweep, worker
from tests.tiers import long

DUE = [workers("abc"), task(1, "scheduled"), task(2, "scheduled")]
# The remaining changes are of the same kinds.
SHORT = ("cancel", "delete", "later")
# A manual change, and the words in a schedule's end that show its success. It succeeds in every order.
MANUAL_CHANGES = {
    "cancel": (cancel(1), "1 cancelled"),
    "requeue": (requeue(1), "operator.requeue 1"),
    "delete": (delete(1), "; 2"),
    "priority": (raise_priority(), "operator.priority 1 2"),
    "later": (run_at(1, hours=1), "1 scheduled"),
    "earlier": (run_at(1, hours=-2), "operator.run_at 1"),
}


def test_three_sweeps_move_each_task_once(arena: Arena) -> None:
    """Every worker sweeps, and none waits for another."""
    race = arena.explore(DUE, *(worker(name, *held(sweep())) for name in "abc"))

    assert {
        "a.sweep 2, b.sweep 0, c.sweep 0; 1 pending, 2 pending": 30,
        "a.sweep 0, b.sweep 2, c.sweep 0; 1 pending, 2 pending": 30,
        "a.sweep 0, b.sweep 0, c.sweep 2; 1 pending, 2 pending": 30,
    } == race.outcomes
    assert set() == race.waits


@pytest.mark.parametrize("what", [what if what in SHORT else long(what) for what in MANUAL_CHANGES])
def test_a_manual_change_of_a_task_that_is_just_due(arena: Arena, what: str) -> None:
    """A sweep skips rows that a manual change locks. The manual change waits for sweep and claim, and then succeeds
    or gets an error."""
    change, success = MANUAL_CHANGES[what]

    race = arena.explore(
        DUE,
        worker("a", *held(sweep())),
        operator(*held(change)),
        worker("b", *held(claim("b"))),
        afterwards=sweep(),
    )

    assert 74 == race.schedules == race.count(success) + race.count("OR001")
    assert {f"operator {change.name} for a", f"operator {change.name} for b"} == race.waits


@pytest.mark.parametrize("what", [what if what in SHORT else long(what) for what in MANUAL_CHANGES])
def test_a_sweep_that_is_stopped_in_the_middle_reads_the_row_again(arena: Arena, what: str) -> None:
    """It stops after its snapshot, where it reads the clock. Then a manual change delays the task, and the sweep
    leaves it scheduled."""
    arena.build_gate()
    change, success = MANUAL_CHANGES[what]

    race = arena.explore(
        DUE,
        operator(shut(), open_again(), name="gate"),
        gated(worker("a", sweep())),
        operator(change),
        worker("b", claim("b")),
        afterwards=sweep(),
    )

    assert 60 == race.schedules == race.count(success) + race.count("OR001")
    assert "a sweep for gate" in race.waits
