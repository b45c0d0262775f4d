"""Count events for Prometheus, each under its metric (`metric_definitions`)."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry

from orchestrator import events
from orchestrator.observe import metric_definitions
from orchestrator.observe.cluster import LEARNT, Cluster
from orchestrator.observe.metric_values import MetricValues, Source
from orchestrator.task.buckets import BOUNDS, bounds
from orchestrator.task.tally import Tally
from orchestrator.version import __version__

COUNTED: frozenset[type[events.Event]] = frozenset(
    {
        events.OutcomesWritten,
        events.StaleOutcome,
        events.LeaseLost,
        events.GhostsReleased,
        events.HandlerAbandoned,
        events.TasksRecovered,
        events.TimeoutsEnforced,
        events.WorkerDeclaredDead,
        events.WorkerCutOff,
        events.LeaderElected,
        events.DutyFailed,
        events.DutyPutOff,
        events.DutyRowSkipped,
        events.ConnectionLost,
        events.ConnectionRestored,
        events.TasksEnqueued,
        events.ClaimAnswered,
        events.LoopTurned,
        events.WorkersRung,
        events.NotificationHeard,
        events.EventsDropped,
        events.SubscriberFailed,
        events.ChildDied,
    }
)


class Counts:
    """The counts in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.numbers = MetricValues()
        self.cluster = Cluster()
        self.numbers.ask(self.cluster.readings)
        self.numbers.ask(lambda: [(metric_definitions.INFO, (__version__,), 1.0)])
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
        if type(event) in LEARNT:
            self.cluster.learn(event)
        self._count_task(event)
        self._count_worker(event)

    def _count_task(self, event: events.Event) -> None:
        add = self.numbers.add
        match event:
            case events.OutcomesWritten(tallies=tallies, took_seconds=seconds):
                self._count_batch(tallies, seconds)
            case events.ClaimAnswered(count=count, seconds=seconds):
                add(metric_definitions.CLAIMED, count=count)
                self.numbers.observe(metric_definitions.CLAIM, seconds)
            case events.TasksEnqueued(type=kind, count=count):
                add(metric_definitions.ENQUEUED, kind, count=count)
            case events.StaleOutcome(queue=queue):
                add(metric_definitions.STALE, queue)
            case events.LeaseLost(queue=queue):
                add(metric_definitions.LEASES_LOST, queue)
            case events.GhostsReleased(count=count):
                add(metric_definitions.GHOSTS, count=count)
            case events.HandlerAbandoned():
                add(metric_definitions.ABANDONED)
            case events.TasksRecovered(returned=returned, dead_lettered=dead_lettered, workers=workers):
                add(metric_definitions.RECOVERED, "returned", count=returned)
                add(metric_definitions.RECOVERED, "dead_lettered", count=dead_lettered)
                add(metric_definitions.WORKERS_LOST, count=workers)
            case events.TimeoutsEnforced(retried=retried, dead_lettered=dead_lettered):
                add(metric_definitions.TIMEOUTS, "retried", count=retried)
                add(metric_definitions.TIMEOUTS, "dead_lettered", count=dead_lettered)

    def _count_batch(self, tallies: Iterable[Tally], took_seconds: float | None) -> None:
        numbers = self.numbers
        if took_seconds is not None:
            numbers.observe(metric_definitions.FINISH, took_seconds)
        for tally in tallies:
            name = (tally.queue, tally.type)
            for outcome, count in tally.counts.items():
                numbers.add(metric_definitions.ATTEMPTS, *name, outcome, count=count)
            for metric, times in (
                (metric_definitions.WAIT, tally.wait),
                (metric_definitions.RUN, tally.run),
                (metric_definitions.TOTAL, tally.total),
            ):
                if times.buckets:
                    numbers.spread(metric, folded(times.buckets), times.seconds, *name)

    def _count_worker(self, event: events.Event) -> None:
        add = self.numbers.add
        match event:
            case events.LoopTurned(lag_seconds=seconds):
                self.numbers.observe(metric_definitions.LAG, seconds)
            case events.WorkerDeclaredDead():
                add(metric_definitions.CUT_OFF, "database")
            case events.WorkerCutOff():
                add(metric_definitions.CUT_OFF, "own clock")
            case events.LeaderElected():
                add(metric_definitions.ELECTIONS)
            case (
                events.DutyFailed(duty=duty) | events.DutyPutOff(duty=duty) | events.DutyRowSkipped(duty=duty)
            ):
                add(metric_definitions.DUTIES_FAILED, duty)
            case events.ConnectionLost(purpose=purpose):
                add(metric_definitions.CONNECTIONS_LOST, purpose)
            case events.ConnectionRestored(purpose=purpose):
                add(metric_definitions.RECONNECTS, purpose)
            case events.WorkersRung(sent=sent):
                add(metric_definitions.RINGS if sent else metric_definitions.RINGS_SPARED)
            case events.NotificationHeard():
                add(metric_definitions.HEARD)
            case events.EventsDropped(count=count):
                add(metric_definitions.DROPPED, count=count)
            case events.SubscriberFailed():
                add(metric_definitions.SUBSCRIBERS_FAILED)
            case events.ChildDied():
                add(metric_definitions.CHILDREN_DIED)


# For each bucket of a batch, the Prometheus bucket that contains it whole.
PLACES = [bisect_left(metric_definitions.MOMENTS, bounds(number)[1]) for number in range(len(BOUNDS))]


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


def ask(source: Source, registry: CollectorRegistry = REGISTRY) -> Callable[[], None]:
    """Read gauges from this source at each scrape. Return the function that ends it. Without counting it does
    nothing."""
    counts = _counting.get(registry)
    return counts.numbers.ask(source) if counts is not None else lambda: None


def counts_of(registry: CollectorRegistry) -> Counts:
    with _beginning:
        if registry not in _counting:
            _counting[registry] = Counts(registry)
        return _counting[registry]
