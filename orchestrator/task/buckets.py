"""Times by their size: which bucket of a histogram a time falls into, and where each begins.

A bucket is at most a quarter wider than where it begins, four to each doubling, so that a percentile read from a
histogram is right to a tenth; histograms of many workers and minutes are added up, which percentiles cannot be. Below
64 µs everything is one bucket, and so is everything above 25 days. The bounds are short in binary: the database has the
same to the last digit (schema/functions/bucket_begins.sql).
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
    """How many times fell into each bucket that has any, and what all of them come to in seconds."""

    buckets: Mapping[int, int]
    seconds: float


EMPTY = Histogram({}, 0.0)


def bucket(seconds: float) -> int:
    """Return the bucket that a time falls into; less than nothing is nothing."""
    return max(0, bisect_right(BOUNDS, seconds) - 1)


def bounds(number: int) -> tuple[float, float]:
    """Return where a bucket begins and where it ends."""
    return BOUNDS[number], BOUNDS[number + 1] if number + 1 < len(BOUNDS) else END


def histogram(times: Iterable[float]) -> Histogram:
    """Sort times into buckets. To have them sorted by size and to look for each bucket's end costs a bucket something,
    and a time next to nothing: of a batch most fall into few. One that is infinite counts as the longest that is told
    apart, and one that is no number as 0."""
    ordered = sorted(times)
    seconds = sum(ordered)
    if not isfinite(seconds):
        ordered = sorted(min(max(0.0, time), BOUNDS[-1]) for time in ordered)
        seconds = sum(ordered)
    found: dict[int, int] = {}
    begin = 0
    # Ends: a bucket holds the time for which it was looked up, as that is finite.
    while begin < len(ordered):
        number = bucket(ordered[begin])
        end = bisect_left(ordered, bounds(number)[1], begin)
        found[number] = end - begin
        begin = end
    return Histogram(found, seconds)
