"""The metrics of one process, and how prometheus-client reads them.

This is our own collector instead of prometheus-client's counters and histograms. A batch of outcomes brings whole
histograms, which those cannot take, and the same metrics are added up across processes. Any thread may add, under one
lock, once a batch.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from orchestrator.observe.label_names import Names
from orchestrator.observe.metric_definitions import METRICS, MOMENTS, PREFIX, SOURCES, Metric

Labels = tuple[str, ...]
Reading = tuple[Metric, Labels, float]
Reader = Callable[[], Iterable[Reading]]


class Spread:
    """One histogram: the count of each bucket, the last one without an upper bound, and the sum of all values."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(MOMENTS) + 1)
        self.total = 0.0


class MetricValues(Collector):
    """Counters and histograms of one process, and its gauges, which are read at each scrape."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names = {"queue": Names(), "type": Names()}
        # A metric without labels exists from the start, at zero: a rate needs a first value.
        self._counts: dict[Metric, dict[Labels, float]] = {
            metric: {} if metric.labels else {(): 0.0} for metric in METRICS if metric.kind == "counter"
        }
        self._spreads: dict[Metric, dict[Labels, Spread]] = {
            metric: {} if metric.labels else {(): Spread()}
            for metric in METRICS
            if metric.kind == "histogram"
        }
        self._readers: list[Reader] = []

    def know(self, queues: Iterable[str], types: Iterable[str]) -> None:
        """Reserve labels for these names, before other names take them."""
        for label, names in (("queue", queues), ("type", types)):
            for name in names:
                self._names[label].of(name)

    def add(self, metric: Metric, *labels: str, count: float = 1) -> None:
        """Increase a counter."""
        values = self._bounded(metric, labels)
        with self._lock:
            counts = self._counts[metric]
            counts[values] = counts.get(values, 0.0) + count

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Add one to a histogram."""
        self.spread(metric, [(bisect_left(MOMENTS, seconds), 1)], seconds, *labels)

    def spread(self, metric: Metric, places: Iterable[tuple[int, int]], total: float, *labels: str) -> None:
        """Add many values to a histogram: the counts of the buckets that MOMENTS bound, and the sum of the values."""
        values = self._bounded(metric, labels)
        with self._lock:
            spreads = self._spreads[metric]
            found = spreads.get(values)
            if found is None:
                found = spreads[values] = Spread()
            for place, count in places:
                found.buckets[place] += count
            found.total += total

    def ask(self, reader: Reader) -> Callable[[], None]:
        """Call this reader of gauges at each scrape. Return the function that ends it."""
        self._readers.append(reader)

        def end() -> None:
            if reader in self._readers:
                self._readers.remove(reader)

        return end

    def describe(self) -> Iterator[Family]:
        """Return all families for the registry, without calling the readers."""
        return iter([family(metric) for metric in METRICS])

    def collect(self) -> Iterator[Family]:
        """Yield the current values of all metrics."""
        gauges = self._gauges()
        with self._lock:
            counts = {metric: dict(of) for metric, of in self._counts.items()}
            spreads = {
                metric: {labels: (list(s.buckets), s.total) for labels, s in of.items()}
                for metric, of in self._spreads.items()
            }
        for metric in METRICS:
            made = family(metric)
            for labels, value in (gauges if metric.kind == "gauge" else counts).get(metric, {}).items():
                made.add_sample(metric.full_name, named(metric, labels), value)
            for labels, (buckets, total) in spreads.get(metric, {}).items():
                fill(made, metric, named(metric, labels), buckets, total)
            if made.samples:
                yield made

    def _gauges(self) -> dict[Metric, dict[Labels, float]]:
        """Call all readers. The gauges of two workers in one process are combined, like those of two processes."""
        gauges: dict[Metric, dict[Labels, float]] = {}
        for reader in tuple(self._readers):
            for metric, labels, value in reader():
                of = gauges.setdefault(metric, {})
                key = self._bounded(metric, labels)
                of[key] = (
                    value
                    if key not in of
                    else max(of[key], value)
                    if metric.across == "max"
                    else of[key] + value
                )
        return gauges

    def _bounded(self, metric: Metric, labels: Labels) -> Labels:
        names = self._names
        return tuple(
            names[name].of(value) if name in names else value
            for name, value in zip(metric.labels, labels, strict=True)
        )


def readings(found: object) -> Iterator[Reading]:
    """Yield the gauges in a worker's health, or in the leader's sample."""
    for metric, source in SOURCES[type(found)]:
        for labels, number in metric.read(source, found):
            # Without any snapshot its age is 0, not a gap in the graph.
            yield metric, labels, float(number or 0)


def family(metric: Metric) -> Family:
    """Return a metric as prometheus-client's family, without values."""
    return Family(PREFIX + metric.name, metric.what, metric.kind)


def named(metric: Metric, labels: Labels) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))


def fill(made: Family, metric: Metric, labels: dict[str, str], buckets: Sequence[int], total: float) -> None:
    """Write one histogram as Prometheus defines it: each bucket includes the counts of the lower ones."""
    for bound, count in zip((*MOMENTS, inf), accumulate(buckets), strict=True):
        made.add_sample(
            f"{metric.full_name}_bucket", {**labels, "le": "+Inf" if bound == inf else str(bound)}, count
        )
    made.add_sample(f"{metric.full_name}_count", labels, sum(buckets))
    made.add_sample(f"{metric.full_name}_sum", labels, total)
