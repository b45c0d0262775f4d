"""The metrics of several processes, combined from the reports of each."""

from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from orchestrator import events, observe
from orchestrator.observe import multiprocess as module
from orchestrator.observe.health import Health, checks, readiness
from orchestrator.observe.multiprocess import Processes, Snapshot
from tests.observe.test_metrics import VITALS

READY = {"ready": True}


def snapshot_after(*happened: Callable[[CollectorRegistry], None]) -> Snapshot:
    """Return the snapshot of a process after these events."""
    registry = CollectorRegistry()
    for happen in happened:
        happen(registry)
    return observe.snapshot(registry)


def counted(amount: float) -> Callable[[CollectorRegistry], None]:
    return lambda registry: Counter("orders", "…", ["shop"], registry=registry).labels("a").inc(amount)


def spread(*values: float) -> Callable[[CollectorRegistry], None]:
    def happen(registry: CollectorRegistry) -> None:
        histogram = Histogram("times", "…", buckets=[1, 2], registry=registry)
        for value in values:
            histogram.observe(value)

    return happen


def gauged(name: str, value: float) -> Callable[[CollectorRegistry], None]:
    return lambda registry: Gauge(name, "…", registry=registry).set(value)


def numbers(processes: Processes) -> dict[str, float]:
    """Return the reported numbers, by name and labels."""
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sample.labels.items()): sample.value
        for metric in processes.collect()
        for sample in metric.samples
    }


def hear(processes: Processes, place: int, numbers: Snapshot) -> None:
    processes.begin(place)
    processes.heard(place, {"numbers": numbers, "ready": READY})


def test_counters_and_histograms_are_added_up() -> None:
    """By their labels, and bucket by bucket. A later report replaces an earlier one; `_created` is not reported."""
    processes = Processes()
    hear(processes, 1, snapshot_after(counted(1)))
    hear(processes, 1, snapshot_after(counted(3), spread(0.5, 1.5)))
    hear(processes, 2, snapshot_after(counted(4), spread(0.5, 9.0)))

    found = numbers(processes)

    assert 7.0 == found["orders_total shop=a"]
    assert [2.0, 3.0, 4.0] == [found[f"times_bucket le={le}"] for le in ("1.0", "2.0", "+Inf")]
    assert (4.0, 11.5) == (found["times_count"], found["times_sum"])


def test_counts_of_an_ended_process_stay_and_count_once() -> None:
    """Also if several processes follow in its place. Its gauges disappear with it."""
    processes = Processes()
    for _ in range(3):
        hear(processes, 1, snapshot_after(counted(2), gauged("orchestrator_worker_busy", 5)))
        processes.gone(1, for_good=False)
        processes.gone(1, for_good=False)

    assert {"orders_total shop=a": 6.0, "orchestrator_processes": 0.0} == numbers(processes)


def test_our_gauges_are_combined_and_others_are_shown_per_process() -> None:
    """Busy slots add up, and there is a leader if one of them leads. The meaning of other gauges is unknown."""
    processes = Processes()
    for place, (busy, leads, own) in {1: (2, 0, 10), 2: (3, 1, 20)}.items():
        hear(
            processes,
            place,
            snapshot_after(
                gauged("orchestrator_worker_busy", busy),
                gauged("orchestrator_is_leader", leads),
                gauged("stock", own),
            ),
        )

    assert {
        "orchestrator_worker_busy": 5.0,
        "orchestrator_is_leader": 1.0,
        "orchestrator_processes": 2.0,
        "stock process=1": 10.0,
        "stock process=2": 20.0,
    } == numbers(processes)


def test_a_silent_process_has_no_gauges(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that hangs is not ready and does not lead, whatever its last report. Its counts stay."""
    processes = Processes()
    hear(
        processes,
        1,
        snapshot_after(
            counted(2),
            gauged("orchestrator_worker_ready", 1),
            gauged("orchestrator_is_leader", 1),
            gauged("stock", 10),
        ),
    )
    monkeypatch.setattr(module, "SILENT_SECONDS_MAX", -1.0)

    assert {"orders_total shop=a": 2.0, "orchestrator_processes": 1.0} == numbers(processes)


def test_all_are_ready_or_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that starts, hangs or is not ready counts; a place that stays empty does not. Without children the
    parent is not ready."""
    processes = Processes()
    assert not processes.readiness()["ready"]
    hear(processes, 1, [])
    assert processes.readiness()["ready"]
    processes.begin(2)
    assert {"ready": False, "says": "starting"} == processes.readiness()["processes"]["2"]
    processes.gone(2, for_good=True)
    assert processes.readiness()["ready"]
    monkeypatch.setattr(module, "SILENT_SECONDS_MAX", -1.0)
    assert "has sent nothing" in processes.readiness()["processes"]["1"]["says"]


@pytest.mark.parametrize(
    ("change", "not_ok"),
    [
        ({}, set()),
        ({"hears": False}, set()),
        ({"is_registered": False}, {"database", "schema"}),
        ({"silent_seconds": 15.1}, {"database"}),
        ({"is_at_home": False}, {"database"}),
        ({"loop_lag_seconds": 1.1}, {"loop"}),
        ({"is_stopping": True}, {"worker"}),
    ],
)
def test_the_conditions_of_readiness(change: dict[str, object], not_ok: set[str]) -> None:
    """Each of these alone makes the worker not ready. A worker that polls is ready, and says so."""
    given = {name: getattr(VITALS, name) for name in Health.__slots__} | change
    health = Health(**given)

    assert not_ok == {name for name, check in checks(health).items() if not check.ok}
    assert readiness(health)["ready"] is not bool(not_ok)
    assert ("listening" in checks(health)["notifications"].says) is health.hears


def test_the_parent_counts_its_children_s_deaths() -> None:
    """They are reported together with the children's metrics."""
    registry = CollectorRegistry()
    stop = observe.count(registry)
    events.emit(events.ChildDied(1, 4711, "signal 9 (SIGKILL)", 0.5))
    stop()

    found = numbers(Processes(lambda: observe.snapshot(registry, ours=True)))

    assert 1.0 == found["orchestrator_processes_died_total"]
