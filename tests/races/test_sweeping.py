"""Sweeps against each other, and against manual changes: a due task is freed once, or not at all."""

import pytest

from tests.races.conftest import Arena
from tests.races.manual import cancel, delete, raise_priority, requeue, run_at
from tests.races.setup_rows import crew, task
from tests.races.statements import claim, gated, hand, held, open_again, shut, sweep, worker
from tests.tiers import long

DUE = [crew("abc"), task(1, "scheduled"), task(2, "scheduled")]
# The others are updates of the same kinds.
SHORT = ("cancel", "delete", "later")
# What a hand wants, and the words by which it is known that it got it: whatever happens between, it does.
WISHES = {
    "cancel": (cancel(1), "1 cancelled"),
    "requeue": (requeue(1), "hand.requeue 1"),
    "delete": (delete(1), "; 2"),
    "priority": (raise_priority(), "hand.priority 1 2"),
    "later": (run_at(1, hours=1), "1 scheduled"),
    "earlier": (run_at(1, hours=-2), "hand.run_at 1"),
}


def test_three_sweeps_free_each_task_once(arena: Arena) -> None:
    """Every worker sweeps, and none waits for another."""
    race = arena.explore(DUE, *(worker(name, *held(sweep())) for name in "abc"))

    assert {
        "a.sweep 2, b.sweep 0, c.sweep 0; 1 pending, 2 pending": 30,
        "a.sweep 0, b.sweep 2, c.sweep 0; 1 pending, 2 pending": 30,
        "a.sweep 0, b.sweep 0, c.sweep 2; 1 pending, 2 pending": 30,
    } == race.outcomes
    assert set() == race.waits


@pytest.mark.parametrize("what", [what if what in SHORT else long(what) for what in WISHES])
def test_a_manual_change_of_a_task_that_is_just_due(arena: Arena, what: str) -> None:
    """A sweep skips rows that a manual change locks. The manual change waits for sweep and claim, and then succeeds
    or gets an error."""
    wish, granted = WISHES[what]

    race = arena.explore(
        DUE,
        worker("a", *held(sweep())),
        hand(*held(wish)),
        worker("b", *held(claim("b"))),
        afterwards=sweep(),
    )

    assert 74 == race.schedules == race.count(granted) + race.count("OR001")
    assert {f"hand {wish.name} for a", f"hand {wish.name} for b"} == race.waits


@pytest.mark.parametrize("what", [what if what in SHORT else long(what) for what in WISHES])
def test_a_sweep_that_is_stopped_in_the_middle_looks_again(arena: Arena, what: str) -> None:
    """It has taken its snapshot and reads the clock; then a manual change delays the task, and the sweep leaves it
    there."""
    arena.build_gate()
    wish, granted = WISHES[what]

    race = arena.explore(
        DUE,
        hand(shut(), open_again(), name="gate"),
        gated(worker("a", sweep())),
        hand(wish),
        worker("b", claim("b")),
        afterwards=sweep(),
    )

    assert 60 == race.schedules == race.count(granted) + race.count("OR001")
    assert "a sweep for gate" in race.waits
