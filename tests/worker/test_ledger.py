"""What a worker holds: each task in one state, and every question answered exactly, on any thread."""

import itertools
from typing import Any, get_args

import pytest

from orchestrator.execute import Attempt
from orchestrator.task.claimed import Claimed, unknown
from orchestrator.task.outcome import Completed, Outcome, State
from orchestrator.worker.ledger import MOVES
from tests.worker.holding import holding, unsent

STATES: tuple[State, ...] = get_args(State)
NOTHING: Any = None


def task(id: int, lease: int = 7) -> Claimed:  # noqa: A002 - as the column
    return unknown(id=id, lease=lease, queue="default", type="mail", attempt=1)


def attempts(count: int) -> list[Attempt]:
    return [Attempt(task(n), handler=NOTHING, executors=NOTHING) for n in range(count)]


def ids(tasks: list[Claimed]) -> list[int]:
    return sorted(task.id for task in tasks)


@pytest.mark.parametrize(
    ("state", "to"),
    [(state, to) for state, to in itertools.product(STATES, STATES) if to not in MOVES[state]],
)
def test_a_move_that_is_not_drawn_is_refused(state: State, to: State) -> None:
    """And the task stays in its state."""
    held = Outcome(task(1), state=state)

    with pytest.raises(AssertionError, match=f"task 1 is {state}: it cannot be {to}"):
        holding().move(held, to)
    assert state == held.state


def test_every_state_is_reached_and_ends_in_the_outbox() -> None:
    """There is a way from the claim to each state, and from each to `writing`."""

    def reached(state: State) -> set[State]:
        return {state}.union(*(reached(to) for to in MOVES[state]))

    assert set(STATES) == set(MOVES) == reached("claimed")
    assert [state for state in STATES if "writing" not in reached(state)] == []


def test_a_task_is_held_until_its_outcome_is_written() -> None:
    """In the line, in a slot, and in the outbox."""
    outbox = unsent()
    ledger = holding(outbox=outbox, slots=2)
    coming = attempts(3)
    assert ledger.arrive(7, coming)
    ledger.line_up(coming)
    assert (3, 0, -1) == (len(ledger.line), len(ledger.in_slots), ledger.free)

    first = ledger.line.popleft()
    ledger.start(first)
    assert (2, 1, -1) == (len(ledger.line), len(ledger.in_slots), ledger.free)
    assert [first] == ledger.running() == ledger.started()

    ledger.write(first, Completed(None))
    assert (1, 0, 0) == (outbox.count, len(ledger.in_slots), ledger.free)
    assert set(coming) == set(ledger.held())

    ledger.leave([first])
    assert set(coming[1:]) == set(ledger.held())


def test_only_an_attempt_that_may_end_in_its_own_way_counts_as_running() -> None:
    """One that is marked first has not started. One whose lease is lost has started, and no longer counts."""
    ledger = holding()
    marked_first, ended, lost = attempts(3)
    ledger.line_up([marked_first, ended, lost])
    ledger.prepare(marked_first)
    ledger.start(ended)
    ledger.move(ended, "ending")
    ledger.start(lost)
    ledger.move(lost, "abandoned")

    assert [ended] == ledger.running()
    assert {ended, lost} == set(ledger.started())
    assert {marked_first, ended, lost} == ledger.in_slots
    assert [marked_first] == ledger.unmarked()


def test_the_line_goes_to_one_taker() -> None:
    """The tasks of a blocked loop go to the other thread, in order. The loop finds none."""
    ledger = holding()
    waiting, urgent = attempts(4)[:2], attempts(4)[2:]
    ledger.line_up(waiting)
    ledger.line_up(urgent, first=True)

    assert [*urgent, *waiting] == ledger.take_line()
    assert [] == ledger.take_line()


class TestGhosts:
    """Tasks that the database holds in our name, and that are none of ours."""

    def test_a_task_under_an_unknown_lease_is_a_ghost(self) -> None:
        """The answer of its claim was lost."""
        ledger = holding([task(1)])

        with ledger.look() as held:
            assert [1] == ids(held)
            assert [2] == ids(ledger.ghosts([task(1), task(2)]))

    def test_the_same_task_under_another_lease_is_a_ghost(self) -> None:
        """A server crash forgot a claim, and the task was claimed again."""
        ledger = holding([task(1)])

        with ledger.look():
            assert [task(1, lease=8)] == ledger.ghosts([task(1), task(1, lease=8)])

    def test_a_task_that_was_finished_while_the_database_answered_is_no_ghost(self) -> None:
        """It was ours when the database looked."""
        ledger = holding([task(1)])
        (held,) = ledger.held()

        with ledger.look():
            ledger.leave([held])
            assert [] == ledger.ghosts([task(1)])
        with ledger.look():
            assert [1] == ids(ledger.ghosts([task(1)]))

    def test_a_task_of_a_claim_on_its_way_is_no_ghost(self) -> None:
        """From the sending of the claim, through its arrival, until its outcome is written."""
        ledger = holding()
        ledger.expect(7)
        (coming,) = attempts(1)

        for arrive in (lambda: None, lambda: ledger.arrive(7, [coming]), lambda: ledger.write(coming)):
            with ledger.look():
                arrive()
                assert [] == ledger.ghosts([coming.task])

    def test_a_task_of_a_failed_claim_is_a_ghost(self) -> None:
        """Whether the claim was committed is unknown."""
        ledger = holding()
        ledger.expect(7)
        ledger.expect_no_more(7)

        with ledger.look():
            assert [1] == ids(ledger.ghosts([task(1)]))


class TestClaimsOnTheirWay:
    """The loop gets a claim's tasks, or another thread takes them: never both."""

    def test_claims_that_were_taken_do_not_arrive(self) -> None:
        """The taker releases their tasks, each time it looks, until the loop has read the answer."""
        ledger = holding()
        ledger.expect(7)

        assert {7} == ledger.take_claims() == ledger.take_claims()
        assert not ledger.arrive(7, attempts(1))
        assert (set(), []) == (ledger.take_claims(), ledger.held())

    def test_a_claim_that_has_arrived_is_not_taken(self) -> None:
        """Its tasks are in the ledger."""
        ledger = holding()
        ledger.expect(7)

        assert ledger.arrive(7, attempts(1))
        assert set() == ledger.take_claims()

    def test_a_claim_that_failed_is_not_taken(self) -> None:
        """Its tasks are ghosts, which any look finds."""
        ledger = holding()
        ledger.expect(7)
        ledger.expect_no_more(7)

        assert set() == ledger.take_claims()
