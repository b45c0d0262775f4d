"""The bucket of a time."""

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.task.buckets import BOUNDS, END, bounds, bucket, histogram

times = st.floats(min_value=-1, max_value=1e9, allow_nan=False)


@given(times)
def test_a_time_lies_in_its_bucket(seconds: float) -> None:
    """From where it begins to where it ends; what is less than nothing counts as nothing."""
    begin, end = bounds(bucket(seconds))

    assert begin <= max(0.0, seconds) < end


def test_a_bucket_is_at_most_a_quarter_wider_than_where_it_begins() -> None:
    """Between 64 µs and 25 days, so that whatever in it is taken for the time is right to a tenth or so."""
    inner = list(pairwise(BOUNDS[1:]))

    assert all(1 < end / begin <= 1.25 + 1e-9 for begin, end in inner)
    assert (0.000064, 25) == (inner[0][0], math.floor(inner[-1][1] / 86400))
    assert END == bounds(len(BOUNDS) - 1)[1]


@given(st.lists(times))
def test_a_histogram_counts_each_time_once(some: list[float]) -> None:
    """As if each had been looked up by itself."""
    expected: dict[int, int] = {}
    for seconds in some:
        expected[bucket(seconds)] = expected.get(bucket(seconds), 0) + 1

    found = histogram(some)

    assert expected == dict(found.buckets)
    assert math.isclose(sum(some), found.seconds, abs_tol=1e-6)


@given(st.lists(st.floats()))
def test_any_floats_are_counted_and_come_to_something_finite(some: list[float]) -> None:
    """Infinite ones and those that are no number, too: a task may be due at -infinity."""
    found = histogram(some)

    assert len(some) == sum(found.buckets.values())
    assert math.isfinite(found.seconds)
