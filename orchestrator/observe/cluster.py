"""The leader's sample of the whole cluster. The leader keeps it, so that a scrape sends no query to the database.

A worker drops the sample when it stops leading: an old number is worse than none. A sample is ignored if the term ended
while it was taken. If no newer sample follows, the metric of its age shows that.
"""

import threading
import time
from collections.abc import Iterator
from uuid import UUID

from orchestrator import events
from orchestrator.observe.metric_definitions import LEADS, SAMPLE_AGE, TERM
from orchestrator.observe.metric_values import Reading, readings

# After one of these, its worker does not lead.
ENDS = (
    events.LeaderResigned,
    events.LeaderSteppedDown,
    events.WorkerDeclaredDead,
    events.WorkerCutOff,
    events.WorkerStopped,
)
LEARNT: frozenset[type[events.Event]] = frozenset({events.LeaderElected, events.GaugesSampled, *ENDS})


class Cluster:
    """The terms in which this process's workers lead, and their last sample."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._terms: dict[UUID, int] = {}
        self._sample: tuple[events.GaugesSampled, float] | None = None

    def learn(self, event: events.Event) -> None:
        """Update the terms and the sample from an event."""
        with self._lock:
            if isinstance(event, events.LeaderElected):
                self._terms[event.worker_id] = event.term
            elif isinstance(event, events.GaugesSampled):
                self._sample = event, time.monotonic()
            elif isinstance(event, ENDS):
                self._terms.pop(event.worker_id, None)
            if not self._terms:
                self._sample = None

    def readings(self) -> Iterator[Reading]:
        """Yield whether this process leads, and if so the sample."""
        with self._lock:
            term, kept = max(self._terms.values(), default=0), self._sample
        yield LEADS, (), float(term > 0)
        yield TERM, (), float(term)
        if kept is not None:
            sample, taken_at = kept
            yield from readings(sample)
            yield SAMPLE_AGE, (), time.monotonic() - taken_at
