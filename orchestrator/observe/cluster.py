"""The leader's sample of the whole cluster. The leader keeps it, so that a scrape sends no query to the database.

A worker drops the sample when it stops leading: an old number is worse than none. A sample is ignored if the term ended
while it was taken. If no newer sample follows, the metric of its age shows that.
"""

import threading
import time
from collections.abc import Iterator
from uuid import UUID

from orchestrator import events
from orchestrator.observe import metric_definitions
from orchestrator.observe.metric_values import Reading


class Cluster:
    """The terms in which this process's workers lead, and their last sample."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._terms: dict[UUID, int] = {}
        self._sample: tuple[events.GaugesSampled, float] | None = None

    def learn(self, event: events.Event) -> None:
        """Update the terms and the sample from an event."""
        with self._lock:
            match event:
                case events.LeaderElected(worker_id=worker_id, term=term):
                    self._terms[worker_id] = term
                case (
                    events.LeaderResigned(worker_id=worker_id)
                    | events.LeaderSteppedDown(worker_id=worker_id)
                    | events.WorkerDeclaredDead(worker_id=worker_id)
                    | events.WorkerCutOff(worker_id=worker_id)
                    | events.WorkerStopped(worker_id=worker_id)
                ):
                    self._terms.pop(worker_id, None)
                case events.GaugesSampled() if self._terms:
                    self._sample = event, time.monotonic()
            if not self._terms:
                self._sample = None

    def readings(self) -> Iterator[Reading]:
        """Yield whether this process leads, and if so the sample."""
        with self._lock:
            term, kept = max(self._terms.values(), default=0), self._sample
        yield metric_definitions.LEADS, (), float(term > 0)
        yield metric_definitions.TERM, (), float(term)
        if kept is not None:
            yield from of_sample(*kept)


LEARNT: frozenset[type[events.Event]] = frozenset(
    {
        events.LeaderElected,
        events.LeaderResigned,
        events.LeaderSteppedDown,
        events.WorkerDeclaredDead,
        events.WorkerCutOff,
        events.WorkerStopped,
        events.GaugesSampled,
    }
)


def of_sample(sample: events.GaugesSampled, at: float) -> Iterator[Reading]:
    for queue, status, count in sample.tasks:
        yield metric_definitions.DEPTH, (queue, status), count
    for queue, seconds in sample.oldest_ready_seconds:
        yield metric_definitions.OLDEST, (queue,), seconds
    for queue, count in sample.dead_letters:
        yield metric_definitions.DEAD, (queue,), count
    for state, count in sample.workers:
        yield metric_definitions.WORKERS, (state,), count
    # Without any snapshot the age is 0, not a gap in the graph.
    yield metric_definitions.HORIZON, (), sample.oldest_snapshot_seconds or 0.0
    yield metric_definitions.HORIZON_XIDS, (), sample.oldest_snapshot_transactions or 0
    yield metric_definitions.NOTIFY_USAGE, (), sample.notification_queue_usage
    yield metric_definitions.LEAVES, (), sample.leaves_ahead
    yield metric_definitions.SAMPLE_TOOK, (), sample.took_seconds
    yield metric_definitions.SAMPLE_AGE, (), time.monotonic() - at
