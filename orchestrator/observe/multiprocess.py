"""The metrics of several processes on one port: each child sends its own once a second.

    child ── snapshot, as JSON, over the tether to its parent ──► Processes ──► /metrics of the parent

Counters and histograms are added up, and the counts of a process stay when it is gone: if the sum went down, Prometheus
would take it for a restart, and count all the rest again. A gauge of ours is combined as `metric_definitions` says. A
gauge of the application or of Python is served for each process. A process that hangs has no gauges. A killed process
loses the counts of its last second. No files are used, so there is nothing to clean up, and nothing is counted twice.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from orchestrator.observe import metric_definitions

ADDED = ("counter", "histogram", "summary")
ACROSS = {
    metric_definitions.PREFIX + metric.name: metric.across
    for metric in metric_definitions.METRICS
    if metric.kind == "gauge"
}
# With an older snapshot, a process hangs, or its snapshots do not arrive.
SILENT_SECONDS_MAX = 10.0

Snapshot = Sequence[Any]
"""A registry as JSON values: name, help, kind and samples of each family; name, labels and value of each sample."""

Labels = tuple[tuple[str, str], ...]


def snapshot(registry: CollectorRegistry = REGISTRY, *, ours: bool = False) -> Snapshot:
    """Return all metrics of a registry, or only ours. The `_created` samples are left out: they cannot be added up."""
    return [
        [
            family.name,
            family.documentation,
            family.type,
            [[s.name, s.labels, s.value] for s in family.samples if s.name != f"{family.name}_created"],
        ]
        for family in registry.collect()
        if not ours or family.name.startswith(metric_definitions.PREFIX)
    ]


class Sums:
    """The sums of metric families."""

    def __init__(self) -> None:
        self.heads: dict[str, tuple[str, str]] = {}
        self.values: dict[str, dict[tuple[str, Labels], float]] = {}

    def add(self, reported: Snapshot, *, process: str | None = None) -> None:
        """Add the snapshot of one process. Without `process`, its gauges are left out."""
        for name, what, kind, samples in reported:
            if kind not in ADDED and process is None:
                continue
            self.heads.setdefault(name, (what, kind))
            values = self.values.setdefault(name, {})
            across = "sum" if kind in ADDED else ACROSS.get(name)
            for sample, labels, value in samples:
                if across is None:
                    labels = {**labels, "process": process}
                key = sample, tuple(labels.items())
                old = values.get(key)
                values[key] = value if old is None else old + value if across == "sum" else max(old, value)

    def reported(self) -> Snapshot:
        """Return the sum in the form of one process's snapshot."""
        return [
            [
                name,
                what,
                kind,
                [[sample, dict(labels), value] for (sample, labels), value in self.values[name].items()],
            ]
            for name, (what, kind) in self.heads.items()
        ]


class Processes(Collector):
    """The snapshots of the children of one parent. `own` returns the parent's own metrics."""

    def __init__(self, own: Callable[[], Snapshot] = list) -> None:
        self._own = own
        self._lock = threading.Lock()
        self._past = Sums()
        self._reported: dict[int, tuple[Snapshot, Mapping[str, Any], float]] = {}
        self._expected: set[int] = set()

    def begin(self, place: int) -> None:
        """A process is about to start in this place, and must become ready."""
        with self._lock:
            self._expected.add(place)

    def heard(self, place: int, reported: Mapping[str, Any]) -> None:
        """Store the snapshot of a process."""
        with self._lock:
            self._reported[place] = reported["numbers"], reported["ready"], time.monotonic()

    def gone(self, place: int, *, for_good: bool) -> None:
        """A process has ended; another may take its place. Its counts stay in the sum."""
        with self._lock:
            if place in self._reported:
                self._past.add(self._reported.pop(place)[0])
            if for_good:
                self._expected.discard(place)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all processes."""
        sums = Sums()
        with self._lock:
            sums.add(self._past.reported())
            reported = dict(self._reported)
        sums.add(self._own(), process="parent")
        for place, (numbers, _, at) in sorted(reported.items()):
            # The gauges of a silent process are left out: it may no longer be ready, or the leader.
            sums.add(numbers, process=str(place) if silent_seconds(at) <= SILENT_SECONDS_MAX else None)
        processes = len(reported)
        sums.add([own_count(processes)], process="parent")
        for name, what, kind, samples in sums.reported():
            metric = Metric(name, what, kind)
            for sample, labels, value in samples:
                metric.add_sample(sample, labels, value)
            yield metric

    def readiness(self) -> dict[str, Any]:
        """Return whether every expected process is ready."""
        with self._lock:
            reported, expected = dict(self._reported), sorted(self._expected)
        processes = {str(place): readiness_of(reported.get(place)) for place in expected}
        return {
            "ready": bool(processes) and all(one["ready"] for one in processes.values()),
            "processes": processes,
        }


def own_count(processes: int) -> Sequence[Any]:
    name = metric_definitions.PREFIX + metric_definitions.PROCESSES.name
    return [name, metric_definitions.PROCESSES.what, "gauge", [[name, {}, processes]]]


def readiness_of(reported: tuple[Snapshot, Mapping[str, Any], float] | None) -> dict[str, Any]:
    if reported is None:
        return {"ready": False, "says": "starting"}
    _, ready, at = reported
    silent = silent_seconds(at)
    if silent > SILENT_SECONDS_MAX:
        return {"ready": False, "says": f"has sent nothing for {silent:.0f} s"}
    return dict(ready)


def silent_seconds(heard_at: float) -> float:
    return time.monotonic() - heard_at
