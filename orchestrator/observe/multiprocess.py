"""The metrics of several processes on one port: each child sends its own once a second.

    child ── snapshot, as JSON, over the connection to its parent ──► Processes ──► /metrics of the parent

Counters and histograms are added up, and the counts of a process stay when it is gone: if the sum went down, Prometheus
would take it for a restart, and count all the rest again. A gauge of ours is combined as `metric_definitions` says. A
gauge of the application or of Python is served for each process. A process that hangs has no gauges. A killed process
loses the counts of its last second. No files are used, so there is nothing to clean up, and nothing is counted twice.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from orchestrator.observe.metric_definitions import METRICS, PREFIX, PROCESSES

ADDED = ("counter", "histogram", "summary")
ACROSS = {metric.full_name: metric.across for metric in METRICS if metric.kind == "gauge"}
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
        if not ours or family.name.startswith(PREFIX)
    ]


@dataclass(frozen=True, slots=True)
class Report:
    """What a process sent last: its metrics, whether it is ready, and when we got it."""

    numbers: Snapshot
    ready: Mapping[str, Any]
    at: float

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self.at

    @property
    def is_silent(self) -> bool:
        return self.silent_seconds > SILENT_SECONDS_MAX


class Sums:
    """The sums of metric families."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, str, dict[tuple[str, Labels], float]]] = {}

    def add(self, reported: Snapshot, *, process: str | None = None) -> None:
        """Add the snapshot of one process. Without `process`, its gauges are left out."""
        for name, what, kind, samples in reported:
            if kind not in ADDED and process is None:
                continue
            _, _, values = self._families.setdefault(name, (what, kind, {}))
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
            [name, what, kind, [[sample, dict(labels), value] for (sample, labels), value in values.items()]]
            for name, (what, kind, values) in self._families.items()
        ]


class Processes(Collector):
    """The snapshots of the children of one parent. `own` returns the parent's own metrics."""

    def __init__(self, own: Callable[[], Snapshot] = list) -> None:
        self._own = own
        self._lock = threading.Lock()
        self._past = Sums()
        self._reports: dict[int, Report] = {}
        self._expected: set[int] = set()

    def begin(self, place: int) -> None:
        """A process is about to start in this place, and must become ready."""
        with self._lock:
            self._expected.add(place)

    def heard(self, place: int, reported: Mapping[str, Any]) -> None:
        """Store the snapshot of a process."""
        with self._lock:
            self._reports[place] = Report(reported["numbers"], reported["ready"], time.monotonic())

    def gone(self, place: int, *, for_good: bool) -> None:
        """A process has ended; another may take its place. Its counts stay in the sum."""
        with self._lock:
            if place in self._reports:
                self._past.add(self._reports.pop(place).numbers)
            if for_good:
                self._expected.discard(place)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all processes."""
        sums = Sums()
        with self._lock:
            sums.add(self._past.reported())
            reports = dict(self._reports)
        sums.add(self._own(), process="parent")
        for place, report in sorted(reports.items()):
            # The gauges of a silent process are left out: it may no longer be ready, or the leader.
            sums.add(report.numbers, process=None if report.is_silent else str(place))
        count = [PROCESSES.full_name, {}, len(reports)]
        sums.add([[PROCESSES.full_name, PROCESSES.what, PROCESSES.kind, [count]]], process="parent")
        for name, what, kind, samples in sums.reported():
            metric = Metric(name, what, kind)
            for sample, labels, value in samples:
                metric.add_sample(sample, labels, value)
            yield metric

    def readiness(self) -> dict[str, Any]:
        """Return whether every expected process is ready."""
        with self._lock:
            reports, expected = dict(self._reports), sorted(self._expected)
        processes = {str(place): readiness_of(reports.get(place)) for place in expected}
        return {
            "ready": bool(processes) and all(one["ready"] for one in processes.values()),
            "processes": processes,
        }


def readiness_of(report: Report | None) -> Mapping[str, Any]:
    if report is None:
        return {"ready": False, "says": "starting"}
    if report.is_silent:
        return {"ready": False, "says": f"has sent nothing for {report.silent_seconds:.0f} s"}
    return report.ready
