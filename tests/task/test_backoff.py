"""The waiting time after a failure: it grows up to a cap, with jitter."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.task.backoff import Backoff, delay_seconds


def in_the_middle() -> float:
    """Return the random draw that does not change the wait."""
    return 0.5


def test_waits_double_from_one_second() -> None:
    """The first wait is the base, and each next one is twice as long."""
    waits = [delay_seconds(Backoff(), attempt, in_the_middle) for attempt in (1, 2, 3, 4, 9)]

    assert [1.0, 2.0, 4.0, 8.0, 256.0] == waits


@pytest.mark.parametrize("attempt", [10, 1_025, 10_000, 2_000_000_000])
@pytest.mark.parametrize("factor", [2.0, 2, 1.5, 1000])
def test_waits_end_at_the_cap_and_never_overflow(attempt: int, factor: float) -> None:
    """A task without a limit of attempts can be retried for ever."""
    assert 300.0 == delay_seconds(Backoff(base_seconds=8, factor=factor), attempt, in_the_middle)


def test_a_factor_of_one_waits_the_same_each_time() -> None:
    """The number of failures makes no difference."""
    assert 5.0 == delay_seconds(Backoff(base_seconds=5.0, factor=1.0), 10_000, in_the_middle)


def test_a_base_of_zero_never_waits() -> None:
    """Zero stays zero, also where the power of the factor overflows."""
    assert 0.0 == delay_seconds(Backoff(base_seconds=0.0), 10_000, in_the_middle)


def test_jitter_moves_both_ways_and_past_the_cap() -> None:
    """Otherwise tasks that failed together and have reached the cap would always be retried together."""
    policy = Backoff(cap_seconds=100.0, jitter=0.1)
    draws = iter([0.0, 0.5, 1.0])
    waits = [delay_seconds(policy, 50, draws.__next__) for _ in range(3)]

    assert pytest.approx([90.0, 100.0, 110.0]) == waits


@given(
    base=st.floats(0, 1e6),
    factor=st.floats(1, 1000),
    cap=st.floats(1e6, 1e9),
    jitter=st.floats(0, 1),
    attempt=st.integers(1, 10**6),
)
def test_every_wait_is_finite_and_within_the_jittered_cap(
    base: float, factor: float, cap: float, jitter: float, attempt: int
) -> None:
    """This holds for real random draws and every valid policy."""
    wait = delay_seconds(Backoff(base, factor, cap, jitter), attempt)

    assert 0 <= wait <= cap * (1 + jitter) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"base_seconds": -1}, "base_seconds"),
        ({"base_seconds": math.nan}, "base_seconds"),
        ({"base_seconds": math.inf, "cap_seconds": math.inf}, "base_seconds"),
        ({"factor": 0.5}, "factor"),
        ({"factor": math.inf}, "factor"),
        ({"cap_seconds": 0.5}, "cap_seconds"),
        ({"cap_seconds": math.nan}, "cap_seconds"),
        ({"jitter": 1.1}, "jitter"),
        ({"jitter": -0.1}, "jitter"),
        ({"jitter": math.nan}, "jitter"),
    ],
)
def test_a_policy_out_of_range_is_refused(fields: dict[str, Any], named: str) -> None:
    """It is refused at the declaration, not at the first failure."""
    with pytest.raises(ValueError, match=named):
        Backoff(**fields)


def test_all_faults_of_a_policy_are_listed_together() -> None:
    """The user can fix all of them at once."""
    with pytest.raises(ValueError, match=r"factor must lie .*; jitter must"):
        Backoff(factor=0, jitter=2)


def test_attempts_are_counted_from_one() -> None:
    """There is no attempt 0 that could fail."""
    with pytest.raises(ValueError, match="counted from 1"):
        delay_seconds(Backoff(), 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, value) for name in ("base_seconds", "cap_seconds") for value in (1e10, "x" * 10_000_000)),
        *(("factor", value) for value in (1001, "2", None, True, b"2")),
        *((name, 10**5000) for name in ("base_seconds", "factor", "cap_seconds", "jitter")),
        ("jitter", []),
    ],
    ids=lambda value: str(value)[:10] if isinstance(value, str) else type(value).__name__,
)
def test_an_invalid_policy_is_refused_in_one_line(field: str, value: Any) -> None:
    """The line names the field, and shows only the beginning of a long value."""
    with pytest.raises(ValueError, match=f"^{field} must lie between ") as caught:
        Backoff(**{field: value})

    assert len(str(caught.value)) < 200
