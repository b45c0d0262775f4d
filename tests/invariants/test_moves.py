"""The judges of moves and of terms find each kind of fault, and nothing in a life that is as it should be."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from orchestrator.task.status import ChangedBy
from tests.invariants.moves import Judge, Move, Row, from_history, wrong_in
from tests.invariants.terms import Terms

WAITS: Mapping[str, Any] = {
    "id": 1, "status": "pending", "lease": None, "worker_id": None, "attempt": 0, "max_attempts": 3, "losses": 0,
    "finished_at": None,
}  # fmt: skip
HELD = {**WAITS, "status": "claimed", "lease": 7, "worker_id": "a", "attempt": 1}
RUNS = {**HELD, "status": "running"}
DONE = {**RUNS, "status": "completed", "finished_at": "now"}


def move(old: Row | None, new: Row | None, who: ChangedBy = ChangedBy.WORKER) -> Move:
    return Move(1, old, new, who)


def judged(*moves: Move) -> list[str]:
    """Return the invariants that these moves break."""
    judge = Judge()
    found = [fault for each in moves for fault in judge.faults(each)]
    return [fault.partition(":")[0] for fault in found]


def test_a_life_as_it_should_be_breaks_nothing() -> None:
    """Made, claimed, given back, claimed again, run, completed, requeued by hand."""
    again = {**HELD, "lease": 8}, {**RUNS, "lease": 8}, {**DONE, "lease": 8}
    life = [None, WAITS, HELD, WAITS, *again]
    moves = [move(old, new) for old, new in pairwise(life)]

    assert [] == judged(*moves, move(again[2], WAITS, ChangedBy.MANUAL))
    assert [] == [fault for row in life if row is not None for fault in wrong_in(row)]


@pytest.mark.parametrize(
    ("wrong", "invariant"),
    [
        ({**HELD, "attempt": 4}, "I10"),
        ({**HELD, "lease": None}, "I3"),
        ({**RUNS, "worker_id": None}, "I3"),
        ({**WAITS, "lease": 7}, "I3"),
        ({**WAITS, "finished_at": "now"}, "I5"),
        ({**DONE, "finished_at": None}, "I5"),
    ],
)
def test_a_wrong_row_is_found(wrong: Row, invariant: str) -> None:
    """By the invariant that it breaks, and no other."""
    assert [invariant] == [fault.partition(":")[0] for fault in wrong_in(wrong)]


@pytest.mark.parametrize(
    ("wrong", "invariants"),
    [
        (move(None, DONE), ["I16"]),
        (move(None, HELD), ["I16"]),
        (move(DONE, WAITS), ["I5", "I16"]),
        (move(WAITS, {**DONE, "lease": None}), ["I16"]),
        (move(RUNS, HELD, ChangedBy.MANUAL), ["I16", "I4"]),
        (move(HELD, {**WAITS, "losses": 1}), ["I10"]),
        (move(HELD, {**RUNS, "lease": 8}), ["I3"]),
        (move(RUNS, {**WAITS, "lease": 7}, ChangedBy.MANUAL), ["I4"]),
        (move(RUNS, {**DONE, "lease": 8}), ["I4"]),
    ],
    ids=str,
)
def test_a_wrong_move_is_found(wrong: Move, invariants: list[str]) -> None:
    """By the invariants that it breaks."""
    assert invariants == judged(wrong)


@pytest.mark.parametrize(
    ("moves", "invariants"),
    [
        ([move(RUNS, DONE), move(RUNS, DONE)], ["I16", "I5"]),
        ([move(HELD, WAITS), move(WAITS, HELD)], ["I3"]),
        ([move(WAITS, HELD), move(WAITS, HELD)], ["I16", "I3"]),
        ([move(None, WAITS), move(HELD, RUNS)], ["I16"]),
    ],
    ids=["a lease ends twice", "a lease comes back", "a lease is given twice", "a move is missing"],
)
def test_moves_that_do_not_follow_each_other_are_found(moves: list[Move], invariants: list[str]) -> None:
    """In the history, where no single move is wrong."""
    assert invariants == judged(*moves)


def test_terms_that_overlap_or_fall_are_found() -> None:
    """Each of these breaks I8: a second leader, a term that does not rise, a duty in a term that is over."""
    terms = Terms()

    assert [] == [*terms.begins("a", 1), *terms.duty("a", 1)]
    assert ["I8: term 2 of b begins in that of ('a', 1)"] == list(terms.begins("b", 2))
    assert ["I8: a does a duty of term 1 in that of ('b', 2)"] == list(terms.duty("a", 1))
    terms.ends()
    assert ["I8: term 2 of a comes after term 2"] == list(terms.begins("a", 2))


def test_a_row_that_changes_its_leaf_has_moved_once() -> None:
    """What leaves one leaf and enters another in one transaction is one move; in two it is a loss and a birth."""
    out = {"actor": "a", "transaction": 5, "task_id": 1, "old": RUNS, "new": None}
    into = {"actor": "a", "transaction": 5, "task_id": 1, "old": None, "new": DONE}

    assert [(RUNS, DONE)] == [(m.old, m.new) for m in from_history([out, into])]
    apart = from_history([out, {**into, "transaction": 6}])
    assert [(None, DONE), (RUNS, None)] == [(m.old, m.new) for m in apart]
