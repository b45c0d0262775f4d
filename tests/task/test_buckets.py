"""The buckets of times, and histograms of them."""

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.task.buckets import BOUNDS, END, bounds, bucket, histogram

times = st.floats(min_value=-1, max_value=1e9, allow_nan=False)


@given(times)
def test_a_time_lies_in_its_bucket(seconds: float) -> None:
    """It is at least the bucket's begin and less than its end. A negative time counts as 0."""
    begin, end = bounds(bucket(seconds))

    assert begin <= max(0.0, seconds) < end


def test_a_bucket_ends_at_most_a_quarter_above_its_begin() -> None:
    """This holds from 64 µs to 25 days. So any value in the bucket is the time within about a tenth."""
    inner = list(pairwise(BOUNDS[1:]))

    assert all(1 < end / begin <= 1.25 + 1e-9 for begin, end in inner)
    assert (0.000064, 25) == (inner[0][0], math.floor(inner[-1][1] / 86400))
    assert END == bounds(len(BOUNDS) - 1)[1]


@given(st.lists(times))
def test_a_histogram_counts_each_time_once(some: list[float]) -> None:
    """It gives the same counts as a lookup of each time."""
    expected: dict[int, int] = {}
    for seconds in some:
        expected[bucket(seconds)] = expected.get(bucket(seconds), 0) + 1

    found = histogram(some)

    assert expected == dict(found.buckets)
    assert math.isclose(sum(some), found.seconds, abs_tol=1e-6)


@given(st.lists(st.floats()))
def test_any_floats_are_counted_and_their_sum_is_finite(some: list[float]) -> None:
    """Infinity and NaN are counted too: a task may be due at -infinity."""
    found = histogram(some)

    assert len(some) == sum(found.buckets.values())
    assert math.isfinite(found.seconds)
