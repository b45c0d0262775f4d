"""The buckets of a histogram of times: which one a time falls into, and where each begins.

A bucket's end is at most a quarter above its beginning, with four buckets to each doubling. So a percentile read from a
histogram is right to a tenth. Histograms of many workers and minutes can be added up; percentiles cannot. All times
below 64 µs are one bucket, and so are all above 25 days. The bounds are short in binary: the database has the same ones
to the last digit (schema/functions/bucket_begins.sql).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import NamedTuple

# Powers of two, in microseconds.
FIRST, LAST = 6, 41

BOUNDS: tuple[float, ...] = (
    0.0,
    *((4 + quarter) * 2 ** (power - 2) / 1e6 for power in range(FIRST, LAST) for quarter in range(4)),
    2**LAST / 1e6,
)
"""Where each bucket begins, in seconds; it ends before the next one begins."""

END = float("inf")


class Histogram(NamedTuple):
    """How many times fell into each bucket that has any, and the sum of all in seconds."""

    buckets: Mapping[int, int]
    seconds: float


EMPTY = Histogram({}, 0.0)


def bucket(seconds: float) -> int:
    """Return the bucket that a time falls into; a negative time counts as 0."""
    return max(0, bisect_right(BOUNDS, seconds) - 1)


def bounds(number: int) -> tuple[float, float]:
    """Return where a bucket begins and where it ends."""
    return BOUNDS[number], BOUNDS[number + 1] if number + 1 < len(BOUNDS) else END


def histogram(times: Iterable[float]) -> Histogram:
    """Sort times into buckets. Sorting by size and then finding each bucket's end has a cost for each bucket, and
    nearly none for each time: most times of a batch fall into few buckets. An infinite time counts as the largest
    bound, and NaN as 0."""
    ordered = sorted(times)
    seconds = sum(ordered)
    if not isfinite(seconds):
        ordered = sorted(min(max(0.0, time), BOUNDS[-1]) for time in ordered)
        seconds = sum(ordered)
    found: dict[int, int] = {}
    begin = 0
    # Ends: each bucket found holds at least one time, since all are finite.
    while begin < len(ordered):
        number = bucket(ordered[begin])
        end = bisect_left(ordered, bounds(number)[1], begin)
        found[number] = end - begin
        begin = end
    return Histogram(found, seconds)
