"""Events are counted, once, under labels that no task can invent."""

from dataclasses import replace
from math import inf
from uuid import UUID, uuid4

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from orchestrator import events, observe
from orchestrator.observe.health import Health
from orchestrator.observe.label_names import NAMES_MAX
from orchestrator.observe.metric_definitions import METRICS, MOMENTS, PREFIX, PROCESSES, SAMPLE_AGE, SOURCES
from orchestrator.observe.metric_values import readings
from orchestrator.observe.metrics import folded
from orchestrator.task.buckets import BOUNDS, EMPTY, bounds, histogram
from orchestrator.task.tally import Tally


def metrics_after(*happened: events.Event) -> dict[str, float]:
    """Emit these events. Return every line that Prometheus would read."""
    registry = CollectorRegistry()
    stop = observe.count(registry)
    try:
        for event in happened:
            events.emit(event)
    finally:
        stop()
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def counted(*happened: events.Event) -> dict[str, float]:
    """Emit these events. Return every counter that is not 0."""
    return {name: value for name, value in metrics_after(*happened).items() if value and "_total" in name}


def test_late_writes_are_counted_by_queue() -> None:
    """As often as they are refused. The type is no label, because any producer may invent one."""
    late = [events.StaleOutcome(n, f"type {n}", "mail") for n in range(3)]

    assert {'orchestrator_stale_writes_rejected_total{queue="mail"}': 3.0} == counted(*late)


def test_recovered_tasks_are_counted() -> None:
    """The metric counts tasks, not rounds of recovery."""
    recovered = [
        events.TasksRecovered(5, 1, 1),
        events.TasksRecovered(2, 0, 1),
        events.TimeoutsEnforced(0, 4),
    ]

    assert {
        'orchestrator_tasks_recovered_total{outcome="returned"}': 7.0,
        'orchestrator_tasks_recovered_total{outcome="dead_lettered"}': 1.0,
        'orchestrator_timeouts_enforced_total{outcome="dead_lettered"}': 4.0,
        "orchestrator_workers_lost_total": 2.0,
    } == counted(*recovered)


def test_duties_losses_and_lost_connections_are_counted() -> None:
    """Each under its own name."""
    happened = [
        events.DutyFailed("recover", "ValueError", "no"),
        events.DutyPutOff("recover", "locked"),
        events.DutyRowSkipped("recover", "task 1", "NumericValueOutOfRange", "smallint out of range"),
        events.LeaseLost(1, "t", "mail", "cancelled"),
        events.GhostsReleased(2),
        events.WorkerDeclaredDead(uuid4(), uuid4(), 0),
        events.WorkerCutOff(uuid4(), uuid4(), 31.0),
        events.LeaderElected(uuid4(), 1),
        events.ConnectionLost("claims", "gone"),
    ]

    assert {
        'orchestrator_duties_failed_total{duty="recover"}': 3.0,
        'orchestrator_leases_lost_total{queue="mail"}': 1.0,
        "orchestrator_ghost_claims_released_total": 2.0,
        'orchestrator_workers_cut_off_total{by="database"}': 1.0,
        'orchestrator_workers_cut_off_total{by="own clock"}': 1.0,
        "orchestrator_elections_won_total": 1.0,
        'orchestrator_connections_lost_total{purpose="claims"}': 1.0,
    } == counted(*happened)


def test_a_success_is_not_counted_by_itself() -> None:
    """There are hundreds of thousands of them: they are added up per batch."""
    assert {} == counted(events.TaskCompleted(1, "t", "mail", 1))


def test_a_batch_is_counted_by_queue_type_and_outcome() -> None:
    """The histograms have its duration, the waiting times and the running times, all of them."""
    waited, ran = histogram([0.0005, 0.003, 40_000.0]), histogram([0.02])
    batch = [Tally("mail", "t", {"completed": 2, "failed": 1}, waited, ran, EMPTY)]

    lines = metrics_after(events.OutcomesWritten(uuid4(), 0.01, tuple(batch)))

    name = 'queue="mail",type="t"'
    assert 2.0 == lines[f'orchestrator_attempts_ended_total{{outcome="completed",{name}}}']
    assert 1.0 == lines[f'orchestrator_attempts_ended_total{{outcome="failed",{name}}}']
    assert [1.0, 2.0, 2.0, 3.0] == [
        lines[f'orchestrator_task_wait_seconds_bucket{{le="{le}",{name}}}']
        for le in ("0.001024", "0.004096", "17179.869184", "+Inf")
    ]
    assert 40_000.0035 == pytest.approx(lines[f"orchestrator_task_wait_seconds_sum{{{name}}}"])
    assert 1.0 == lines[f"orchestrator_task_run_seconds_count{{{name}}}"]
    assert 1.0 == lines["orchestrator_finish_batch_seconds_count"]


@pytest.mark.parametrize("number", range(0, len(BOUNDS), 7))
def test_a_bucket_of_a_batch_lies_within_one_of_prometheus(number: int) -> None:
    """So that no count goes into a wrong bucket."""
    begin, end = bounds(number)
    ((place, _),) = folded({number: 1})

    assert begin >= (0.0, *MOMENTS)[place]
    assert end <= (*MOMENTS, inf)[place]


def test_a_metric_without_labels_exists_from_the_start() -> None:
    """The rate of a metric that appears with the value 1 would be 0."""
    assert 0.0 == metrics_after()["orchestrator_ghost_claims_released_total"]


def test_more_names_than_two_hundred_are_one() -> None:
    """Any producer may invent types, and Prometheus keeps each label for weeks."""
    batches = [Tally("mail", f"type {n}", {"completed": 1}) for n in range(NAMES_MAX + 50)]

    kinds = {
        name: value
        for name, value in metrics_after(events.OutcomesWritten(uuid4(), None, tuple(batches))).items()
        if name.startswith("orchestrator_attempts_ended_total")
    }

    assert NAMES_MAX + 1 == len(kinds)
    assert 50.0 == kinds['orchestrator_attempts_ended_total{outcome="completed",queue="mail",type="other"}']


def test_invented_names_take_no_label_of_a_workers_own() -> None:
    """Its queues and types have their labels from the start, before any others."""
    registry = CollectorRegistry()
    stop = observe.count(registry, queues=["mail"], types=["send"])
    crowd = [
        Tally(f"queue {n}", f"type {n}", {"completed": 1}, EMPTY, EMPTY, EMPTY) for n in range(NAMES_MAX)
    ]
    own = Tally("mail", "send", {"completed": 1}, EMPTY, EMPTY, EMPTY)
    events.emit(events.OutcomesWritten(uuid4(), None, (*crowd, own)))
    stop()

    labels = {"queue": "mail", "type": "send", "outcome": "completed"}
    assert 1.0 == registry.get_sample_value("orchestrator_attempts_ended_total", labels)


@pytest.mark.parametrize(
    "kind", ['a"} 1\norchestrator_forged 1', "\\", "\r\n# HELP x", "\x1b[2J", "x" * 5000, "\u202e"]
)
def test_a_name_forges_no_line(kind: str) -> None:
    """Any name of a type is one label value, in one line, with a bounded length."""
    registry = CollectorRegistry()
    stop = observe.count(registry)
    events.emit(events.TasksEnqueued(kind, 3))
    stop()
    text = generate_latest(registry).decode()

    (metric,) = (m for m in text_string_to_metric_families(text) if m.name == "orchestrator_tasks_enqueued")
    assert [3.0] == [sample.value for sample in metric.samples]
    assert all(line.isprintable() and len(line) < 600 for line in text.split("\n"))


def test_counting_goes_on_while_there_is_a_subscriber() -> None:
    """Two workers in one process count each event once, and when the first has stopped the second counts on."""
    registry = CollectorRegistry()
    first, second = observe.count(registry), observe.count(registry)
    events.emit(events.TasksEnqueued("t", 1))
    first()
    first()
    events.emit(events.TasksEnqueued("t", 10))
    second()
    events.emit(events.TasksEnqueued("t", 100))

    assert 11.0 == registry.get_sample_value("orchestrator_tasks_enqueued_total", {"type": "t"})


SAMPLE = events.GaugesSampled(
    (("mail", "pending", 7),), (("mail", 61.5),), (("mail", 2),), (("running", 3),), 0.25, 900, 12.0, 6, 0.01
)


def test_only_the_leader_reports_the_cluster() -> None:
    """A worker that no longer leads drops its sample: an old number is worse than none."""
    worker_id = uuid4()
    elected = events.LeaderElected(worker_id, 41)

    leading = metrics_after(elected, SAMPLE)
    stepped_down = metrics_after(elected, SAMPLE, events.LeaderSteppedDown(worker_id, 41))
    too_late = metrics_after(elected, events.LeaderSteppedDown(worker_id, 41), SAMPLE)

    assert 7.0 == leading['orchestrator_queue_tasks{queue="mail",status="pending"}']
    assert 61.5 == leading['orchestrator_queue_oldest_ready_seconds{queue="mail"}']
    assert (1.0, 41.0) == (leading["orchestrator_is_leader"], leading["orchestrator_leader_term"])
    of_sample = (SAMPLE_AGE.full_name, *(metric.full_name for metric, _ in SOURCES[events.GaugesSampled]))
    for later in (stepped_down, too_late):
        assert (0.0, 0.0) == (later["orchestrator_is_leader"], later["orchestrator_leader_term"])
        assert not [name for name in later if name.startswith(of_sample)]


def test_queues_beyond_two_hundred_are_added_up() -> None:
    """The sum of all depths stays right."""
    queues = tuple((f"q{n:04}", "pending", 1) for n in range(NAMES_MAX + 30))

    lines = metrics_after(events.LeaderElected(uuid4(), 1), replace(SAMPLE, tasks=queues))

    assert 30.0 == lines['orchestrator_queue_tasks{queue="other",status="pending"}']


def test_every_metric_in_the_catalogue_is_served_as_described() -> None:
    """By name, kind and labels; a worker and a leader serve all of them."""
    registry = CollectorRegistry()
    stop = observe.count(registry)
    observe.ask(lambda: readings(VITALS), registry)
    one_of_each(uuid4())
    stop()

    found = {
        family.name: (family.type, {frozenset(sample.labels) - {"le"} for sample in family.samples})
        for family in registry.collect()
    }
    assert {
        PREFIX + metric.name: (metric.kind, {frozenset(metric.labels)})
        for metric in METRICS
        if metric is not PROCESSES  # a parent's
    } == found


def test_every_source_has_the_fields_that_a_metric_reads() -> None:
    """The type checker cannot see this: the fields are named in the list of metrics."""
    wrong = [
        f"{kind.__name__} has no {name}, which {metric.name} reads"
        for kind, found in SOURCES.items()
        for metric, source in found
        # A row of the sample holds its labels.
        for name in {source.field, *(metric.labels if kind is not events.GaugesSampled else ())}
        if name is not None and name not in source.fixed and not hasattr(kind, name)
    ]

    assert [] == wrong


VITALS = Health(
    is_registered=True, is_stopping=False, is_at_home=True, hears=True, silent_seconds=0.1, silent_seconds_max=15.0,
    loop_lag_seconds=0.0, slots=20, busy=3, waiting=1, unwritten=0,
)  # fmt: skip


def one_of_each(worker_id: UUID) -> None:
    """Emit an event for everything with labels."""
    some = histogram([0.1])
    for event in (
        events.OutcomesWritten(worker_id, 0.1, (Tally("q", "t", {"lost": 1}, some, some, some),)),
        events.TasksEnqueued("t", 1),
        events.StaleOutcome(1, "t", "q"),
        events.LeaseLost(1, "t", "q", "cancelled"),
        events.TasksRecovered(1, 1, 1),
        events.TimeoutsEnforced(1, 1),
        events.WorkerCutOff(uuid4(), uuid4(), 31.0),
        events.DutyFailed("recover", "ValueError", "no"),
        events.ConnectionLost("claims", "gone"),
        events.ConnectionRestored("claims", 2),
        events.LeaderElected(worker_id, 3),
        SAMPLE,
    ):
        events.emit(event)
