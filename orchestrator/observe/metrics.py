"""Count events for Prometheus, each under its metric (`metric_definitions`)."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry

from orchestrator import events
from orchestrator.observe.cluster import LEARNT, Cluster
from orchestrator.observe.metric_definitions import ATTEMPTS, INFO, MOMENTS, RUN, SOURCES, TOTAL, WAIT
from orchestrator.observe.metric_values import MetricValues, Reader
from orchestrator.task.buckets import BOUNDS, bounds
from orchestrator.task.tally import Tally
from orchestrator.version import __version__

COUNTED = frozenset(kind for kind in SOURCES if issubclass(kind, events.Event)) - {events.GaugesSampled}


class Counts:
    """The counts in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.numbers = MetricValues()
        self.cluster = Cluster()
        self.numbers.ask(self.cluster.readings)
        self.numbers.ask(lambda: [(INFO, (__version__,), 1.0)])
        self._users = set[object]()
        self._lock = threading.Lock()
        self._unsubscribe: Callable[[], None] = lambda: None
        registry.register(self.numbers)

    def begin(self) -> Callable[[], None]:
        """Count from now on. Return the function that ends it; counting stops when the last user has called its own."""
        user = object()
        with self._lock:
            if not self._users:
                self._unsubscribe = events.subscribe(self.count, to=COUNTED | LEARNT)
            self._users.add(user)
        return lambda: self._end(user)

    def _end(self, user: object) -> None:
        with self._lock:
            self._users.discard(user)
            if not self._users:
                self._unsubscribe()

    def count(self, event: events.Event) -> None:
        """Count one event."""
        kind = type(event)
        if kind in LEARNT:
            self.cluster.learn(event)
        if kind in COUNTED:
            for metric, source in SOURCES[kind]:
                for labels, number in metric.read(source, event):
                    if metric.kind == "counter":
                        self.numbers.add(metric, *labels, count=number)
                    elif number is not None:
                        self.numbers.observe(metric, number, *labels)
        if isinstance(event, events.OutcomesWritten):
            self._count_batch(event.tallies)

    def _count_batch(self, tallies: Iterable[Tally]) -> None:
        for tally in tallies:
            name = (tally.queue, tally.type)
            for outcome, count in tally.counts.items():
                self.numbers.add(ATTEMPTS, *name, outcome, count=count)
            for metric, times in ((WAIT, tally.wait), (RUN, tally.run), (TOTAL, tally.total)):
                if times.buckets:
                    self.numbers.spread(metric, folded(times.buckets), times.seconds, *name)


# For each bucket of a batch, the Prometheus bucket that contains it whole.
PLACES = [bisect_left(MOMENTS, bounds(number)[1]) for number in range(len(BOUNDS))]


def folded(buckets: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return the Prometheus buckets for those of a batch."""
    return [(PLACES[number], count) for number, count in buckets.items()]


_counting: WeakKeyDictionary[CollectorRegistry, Counts] = WeakKeyDictionary()
_beginning = threading.Lock()


def count(
    registry: CollectorRegistry = REGISTRY, *, queues: Iterable[str] = (), types: Iterable[str] = ()
) -> Callable[[], None]:
    """Count every event from now on, once, in this registry, until every caller has called the function that this
    returns. These queues and types always have their own labels."""
    counts = counts_of(registry)
    counts.numbers.know(queues, types)
    return counts.begin()


def ask(reader: Reader, registry: CollectorRegistry = REGISTRY) -> Callable[[], None]:
    """Call this reader of gauges at each scrape. Return the function that ends it. Without counting it does
    nothing."""
    counts = _counting.get(registry)
    return counts.numbers.ask(reader) if counts is not None else lambda: None


def counts_of(registry: CollectorRegistry) -> Counts:
    with _beginning:
        if registry not in _counting:
            _counting[registry] = Counts(registry)
        return _counting[registry]
