"""Every metric that a worker serves to Prometheus: its name, its meaning, its labels, and where its values come from.

This is the only list. What is counted, what is served, the reference, and the test of the alerts and the dashboard are
made from it. Labels are bounded: never an id, nothing that a payload could hold, and a limited number of queues and
types (`label_names`).

A source names a kind of event and the field with the number. A gauge may also be read from a worker's `Health`. Metrics
without a source are filled by code: those of batches and of this process (`metrics`), of the leader (`cluster`), and
of several processes (`multiprocess`).

`across` says how the gauges of several processes on one port are combined: "sum" adds them, "max" takes the highest,
"leader" takes that of the process that leads, or the highest if two lead for a moment.
Counters and histograms are added.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from orchestrator import events
from orchestrator.events import GaugesSampled as Sample
from orchestrator.observe.health import Health

PREFIX = "orchestrator_"
Kind = Literal["counter", "gauge", "histogram"]
# The upper bounds of histogram buckets, in seconds: up to one second each is twice the last, up to five hours four
# times. The finer buckets of a batch (`task.buckets`) have these bounds too, so each fits into one bucket here without
# an estimate.
MOMENTS = tuple(2**power / 1e6 for power in (*range(10, 21), *range(22, 36, 2)))


@dataclass(frozen=True, slots=True)
class Source:
    """What a metric takes from an event, or from a worker's health."""

    of: type[object]
    field: str | None
    """The field with the number, or with tuples of labels and a number. None: each event counts as one."""
    fixed: Mapping[str, str]
    """The labels that do not depend on the event. The value of any other is the field of its name."""


Sources = tuple[Source, ...]


# Compared by identity: a metric is the key of its values.
@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric: a value, or a value for each combination of its labels."""

    kind: Kind
    name: str
    what: str
    sources: Sources = ()
    labels: tuple[str, ...] = ()
    across: Literal["sum", "max", "leader"] = "sum"

    @property
    def full_name(self) -> str:
        """The name as it is served, without the suffixes of a histogram."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")

    def read(self, source: Source, found: object) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Yield labels and numbers from an event, or from a worker's health. None: the number is unknown."""
        number = 1 if source.field is None else getattr(found, source.field)
        if isinstance(number, tuple):
            yield from ((tuple(labels), each) for *labels, each in number)
        else:
            yield tuple(source.fixed.get(name) or getattr(found, name) for name in self.labels), number


def on(of: type[object], field: str | None = None, **fixed: str) -> Sources:
    return (Source(of, field, fixed),)


counter = partial(Metric, "counter")
histogram = partial(Metric, "histogram")
gauge = partial(Metric, "gauge")
highest = partial(Metric, "gauge", across="max")
sampled = partial(Metric, "gauge", across="leader")

OF_TYPE = ("queue", "type")
# Filled by code.
ATTEMPTS = counter("attempts_ended", "Attempts that have ended, by outcome", labels=(*OF_TYPE, "outcome"))
WAIT = histogram(
    "task_wait_seconds", "Time from when a task could run until its handler began", labels=OF_TYPE
)
RUN = histogram("task_run_seconds", "Time that a handler ran", labels=OF_TYPE)
TOTAL = histogram(
    "task_total_seconds", "Time from when a task could run until its handler ended", labels=OF_TYPE
)
LEADS = highest("is_leader", "1 if this process leads, else 0")
TERM = highest("leader_term", "The term in which this process leads, or 0")
PROCESSES = gauge("processes", "Worker processes that this port serves")
INFO = gauge("info", "Processes that run this version", labels=("version",))
SAMPLE_AGE = highest("sample_age_seconds", "Age of the leader's last sample")

METRICS = (
    # Of tasks.
    counter(
        "tasks_enqueued", "Tasks that this process enqueued; the caller's transaction may still roll back",
        on(events.TasksEnqueued, "count"), ("type",),
    ),
    counter("tasks_claimed", "Tasks that this process claimed", on(events.ClaimAnswered, "count")),
    ATTEMPTS, WAIT, RUN, TOTAL,
    histogram(
        "finish_batch_seconds", "Time to write a batch of outcomes", on(events.OutcomesWritten, "took_seconds")
    ),
    counter(
        "stale_writes_rejected", "Outcomes that came too late: their lease was void",
        on(events.StaleOutcome), ("queue",),
    ),
    counter("leases_lost", "Attempts that lost their task while they ran", on(events.LeaseLost), ("queue",)),
    counter(
        "ghost_claims_released", "Claimed tasks that were given back, because the claim's answer was lost",
        on(events.GhostsReleased, "count"),
    ),
    counter(
        "handlers_abandoned", "Handlers that went on after their timeout or their cancellation",
        on(events.HandlerAbandoned),
    ),
    counter(
        "tasks_recovered", "Tasks of dead workers that this process, as the leader, gave back or made dead letters",
        on(events.TasksRecovered, "returned", outcome="returned")
        + on(events.TasksRecovered, "dead_lettered", outcome="dead_lettered"),
        ("outcome",),
    ),
    counter(
        "workers_lost", "Workers that this process, as the leader, declared dead",
        on(events.TasksRecovered, "workers"),
    ),
    counter(
        "timeouts_enforced", "Attempts that this process, as the leader, ended because their workers did not",
        on(events.TimeoutsEnforced, "retried", outcome="retried")
        + on(events.TimeoutsEnforced, "dead_lettered", outcome="dead_lettered"),
        ("outcome",),
    ),
    histogram("claim_seconds", "Time from a claim's statement to its answer", on(events.ClaimAnswered, "seconds")),
    # Of the worker.
    counter(
        "workers_cut_off", "Times that a worker lost its leases in the database, or gave them up by its own clock",
        on(events.WorkerDeclaredDead, by="database") + on(events.WorkerCutOff, by="own clock"), ("by",),
    ),
    counter("elections_won", "Times that a worker of this process became the leader", on(events.LeaderElected)),
    counter(
        "duties_failed", "Duties that failed, met another session's lock, or left out a row",
        on(events.DutyFailed) + on(events.DutyPutOff) + on(events.DutyRowSkipped), ("duty",),
    ),
    counter(
        "connections_lost", "Statements that failed for a reason that may pass",
        on(events.ConnectionLost), ("purpose",),
    ),
    counter(
        "reconnects", "Times that the database answered again after a statement had failed",
        on(events.ConnectionRestored), ("purpose",),
    ),
    counter(
        "notifications_sent", "Notifications that a worker of this process sent for tasks that became due",
        on(events.WorkersRung, "sent"),
    ),
    counter(
        "notifications_suppressed", "Times that a worker sent no notification, because it took all due tasks itself",
        on(events.WorkersRung, "suppressed"),
    ),
    counter("notifications_received", "Notifications that this process received", on(events.NotificationHeard)),
    counter(
        "events_dropped", "Events that a subscriber of the application missed, because it was too slow",
        on(events.EventsDropped, "count"),
    ),
    counter(
        "subscribers_failed", "Times that a subscriber of the application raised an error",
        on(events.SubscriberFailed),
    ),
    counter("processes_died", "Worker processes that crashed (--processes)", on(events.ChildDied)),
    histogram(
        "loop_lag_seconds", "How late the event loop ran a due call; measured four times a second",
        on(events.LoopTurned, "lag_seconds"),
    ),
    highest("loop_lag", "How late the event loop is now, in seconds", on(Health, "loop_lag_seconds")),
    gauge("worker_slots", "Tasks that can run at once", on(Health, "slots")),
    gauge("worker_busy", "Tasks that run now", on(Health, "busy")),
    gauge("worker_waiting", "Claimed tasks that wait for a slot", on(Health, "waiting")),
    gauge("worker_unwritten", "Outcomes that are not written yet", on(Health, "unwritten")),
    gauge("worker_ready", "Workers that are ready, as /readyz shows", on(Health, "is_ready")),
    highest(
        "database_silent_seconds", "Time since the database last confirmed a heartbeat", on(Health, "silent_seconds")
    ),
    LEADS, TERM, PROCESSES, INFO,
    # Of the cluster: the leader's last sample. Only the leader serves them.
    sampled("queue_tasks", "Live tasks of a queue, by status", on(Sample, "tasks"), ("queue", "status")),
    highest(
        "queue_oldest_ready_seconds", "For how long the oldest ready task of a queue could have run",
        on(Sample, "oldest_ready_seconds"), ("queue",),
    ),
    sampled("queue_dead_letters", "Dead letters of a queue", on(Sample, "dead_letters"), ("queue",)),
    sampled("cluster_workers", "Workers by state", on(Sample, "workers"), ("state",)),
    highest(
        "horizon_age_seconds", "Age of the oldest transaction that holds a snapshot",
        on(Sample, "oldest_snapshot_seconds"),
    ),
    highest(
        "horizon_age_transactions", "Transactions that began since the oldest snapshot was taken",
        on(Sample, "oldest_snapshot_transactions"),
    ),
    highest(
        "notification_queue_usage_ratio", "How full PostgreSQL's NOTIFY queue is, from 0 to 1",
        on(Sample, "notification_queue_usage"),
    ),
    highest("leaves_ahead", "Days after today that have a partition for finished tasks", on(Sample, "leaves_ahead")),
    highest("sample_seconds", "Time that the leader's last sample took", on(Sample, "took_seconds")),
    SAMPLE_AGE,
)  # fmt: skip

SOURCES: dict[type[object], list[tuple[Metric, Source]]] = {}
for metric in METRICS:
    for source in metric.sources:
        SOURCES.setdefault(source.of, []).append((metric, source))
