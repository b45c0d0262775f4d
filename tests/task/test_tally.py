"""The counts of outcomes by queue and type, and the times of their attempts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.task.buckets import EMPTY, bucket
from orchestrator.task.claimed import Claimed, unknown
from orchestrator.task.outcome import (
    Cancelled,
    Completed,
    DeadLettered,
    End,
    Failed,
    Fault,
    Outcome,
    PutBack,
    Recorded,
    Released,
    Snoozed,
)
from orchestrator.task.tally import UNKNOWN_TYPE, WORDS, Tally, tallies, word

FAULT = Fault("ValueError", "no")
ENDS: dict[str, list[End]] = {
    "completed": [Completed(None), Completed("1"), Recorded()],
    "failed": [Failed(FAULT, "failed", 1.0)],
    "timed_out": [Failed(FAULT, "timeout", 1.0)],
    "dead_lettered": [
        DeadLettered(FAULT, "failed"),
        DeadLettered(FAULT, "timeout"),
        DeadLettered(FAULT, "discarded"),
    ],
    "cancelled": [Cancelled("why")],
    "snoozed": [Snoozed(1.0)],
    "put_back": [PutBack(FAULT, 1.0, 1)],
    "released": [Released()],
}


def task(queue: str = "mail", kind: str = "send", waited_seconds: float = 0.5) -> Claimed:
    return unknown(id=1, lease=2, queue=queue, type=kind, attempt=1)._replace(waited_seconds=waited_seconds)


@pytest.mark.parametrize("expected", ENDS)
def test_each_end_has_its_word(expected: str) -> None:
    """There is one word for each end. Only `lost` has no outcome of a worker."""
    assert {expected} == {word(end) for end in ENDS[expected]}
    assert set(WORDS) == {*ENDS, "lost"}


@pytest.mark.parametrize("end", [Completed(None), Failed(FAULT, "failed", 1.0)])
def test_a_tally_times_finished_attempts(end: End) -> None:
    """The waiting time ends at the start of the attempt, and the running time begins there."""
    outcome = Outcome(task(waited_seconds=0.5), end, begun_at=100.5, ended_at=103.5, taken_at=100.0)

    (found,) = tallies([outcome])

    assert ("mail", "send", {word(end): 1}) == (found.queue, found.type, dict(found.counts))
    assert (1.0, 3.0, 4.0) == (found.wait.seconds, found.run.seconds, found.total.seconds)
    assert ({bucket(1.0): 1}, {bucket(3.0): 1}) == (found.wait.buckets, found.run.buckets)


@pytest.mark.parametrize("end", [Released(), Completed(None)])
def test_an_attempt_that_did_not_run_is_only_counted(end: End) -> None:
    """It was released, or it has no start, so its waiting time is unknown."""
    outcome = Outcome(task(), end, begun_at=None if type(end) is Completed else 100.5, ended_at=101.0)

    assert (Tally("mail", "send", {word(end): 1}, EMPTY, EMPTY, EMPTY),) == tallies([outcome])


def test_undeclared_types_are_counted_under_one_name() -> None:
    """Any producer may choose their names, and there may be any number of them."""
    outcomes = [Outcome(task(kind=f"x{n}"), PutBack(FAULT, 5.0, 1)) for n in range(100)]

    assert (Tally("mail", UNKNOWN_TYPE, {"put_back": 100}),) == tallies(outcomes)
    assert () == tallies([])


some_outcomes = st.builds(
    Outcome,
    st.builds(task, queue=st.sampled_from("ab"), kind=st.sampled_from("xyz")),
    st.sampled_from([end for word in ENDS.values() for end in word] + [Completed(None)] * 20),
    st.one_of(st.none(), st.just(7.0)),
    st.just(8.0),
    st.just(6.5),
)


@given(st.lists(some_outcomes, max_size=20))
def test_tallies_add_up_to_the_outcomes(outcomes: list[Outcome]) -> None:
    """Any mix of outcomes: each is in one tally, and is timed once if it ran and was neither put back nor released."""
    expected = Counter(
        (o.task.queue, UNKNOWN_TYPE if isinstance(o.end, PutBack) else o.task.type, word(o.end))
        for o in outcomes
    )
    timed = [o for o in outcomes if o.begun_at is not None and not isinstance(o.end, PutBack | Released)]

    found = tallies(outcomes)

    assert expected == Counter({(t.queue, t.type, w): n for t in found for w, n in t.counts.items()})
    assert len({(t.queue, t.type) for t in found}) == len(found)
    for times in ("wait", "run", "total"):
        assert len(timed) == sum(sum(getattr(t, times).buckets.values()) for t in found)
