"""Every metric that a worker serves to Prometheus: its name, its meaning, its labels.

This is the only list. The served metrics, the reference, and the test of the alerts and the dashboard are made from it.
Labels are bounded: never an id, nor anything that a payload could hold, and a limited number of queues and types
(`label_names`).

`across` says how the gauges of several processes on one port are combined: "sum" adds them, "max" takes the highest,
"leader" takes that of the process that leads, or the highest if two lead for a moment.
Counters and histograms are added.
"""

from dataclasses import dataclass
from typing import Literal

PREFIX = "orchestrator_"
Kind = Literal["counter", "gauge", "histogram"]
# The upper bounds of histogram buckets, in seconds: up to one second each is twice the last, up to five hours four
# times. The finer buckets of a batch (`task.buckets`) have these bounds too, so each fits into one bucket here without
# an estimate.
MOMENTS = tuple(2**power / 1e6 for power in (*range(10, 21), *range(22, 36, 2)))


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a value, or a value for each combination of its labels."""

    kind: Kind
    name: str
    what: str
    labels: tuple[str, ...] = ()
    across: Literal["sum", "max", "leader"] = "sum"

    @property
    def full_name(self) -> str:
        """The name as it is served, without the suffixes of a histogram."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


def counter(name: str, what: str, *labels: str) -> Metric:
    return Metric("counter", name, what, labels)


def histogram(name: str, what: str, *labels: str) -> Metric:
    return Metric("histogram", name, what, labels)


def gauge(name: str, what: str, *labels: str) -> Metric:
    return Metric("gauge", name, what, labels)


def highest(name: str, what: str, *labels: str) -> Metric:
    return Metric("gauge", name, what, labels, "max")


def sampled(name: str, what: str, *labels: str) -> Metric:
    return Metric("gauge", name, what, labels, "leader")


# Of tasks.
ENQUEUED = counter(
    "tasks_enqueued",
    "Tasks that this process sent; a transaction of the caller's may still roll back",
    "type",
)
CLAIMED = counter("tasks_claimed", "Tasks claimed")
ATTEMPTS = counter(
    "attempts_ended",
    "Attempts by what became of them, once that is written. failed, timed_out: retried; dead_lettered: a dead letter; "
    "lost: with its worker, told by the leader; put_back: of a type that this worker does not know",
    "queue",
    "type",
    "outcome",
)
WAIT = histogram("task_wait_seconds", "From when a task could run until its handler began", "queue", "type")
RUN = histogram("task_run_seconds", "How long a handler ran", "queue", "type")
TOTAL = histogram(
    "task_total_seconds", "End to end: from when a task could run until its handler ended", "queue", "type"
)
FINISH = histogram("finish_batch_seconds", "How long it took to write a batch of outcomes")
STALE = counter("stale_writes_rejected", "Outcomes refused since their lease was void", "queue")
LEASES_LOST = counter("leases_lost", "Handlers told that their task is no longer theirs", "queue")
GHOSTS = counter("ghost_claims_released", "Tasks given back whose claim's answer was lost")
ABANDONED = counter("handlers_abandoned", "Handlers that ignored their timeout or their cancellation")
RECOVERED = counter(
    "tasks_recovered",
    "Orphans: tasks taken back from dead workers by this process as the leader; dead_lettered: as poison",
    "outcome",
)
WORKERS_LOST = counter("workers_lost", "Workers that this process, as the leader, declared dead")
TIMEOUTS = counter("timeouts_enforced", "Attempts ended by the leader that no worker had ended", "outcome")
CLAIM = histogram("claim_seconds", "How long a claim took, from the statement to its answer")

# Of the worker.
CUT_OFF = counter("workers_cut_off", "Times this worker gave its leases up, or had lost them", "by")
ELECTIONS = counter("elections_won", "Times this worker was elected")
DUTIES_FAILED = counter(
    "duties_failed", "Duties that raised, found a lock in their way, or left out a row", "duty"
)
CONNECTIONS_LOST = counter("connections_lost", "Statements that failed in a way that may pass", "purpose")
RECONNECTS = counter("reconnects", "Times the database answered again after that", "purpose")
RINGS = counter(
    "notifications_sent", "Notifications that this worker sent so that others see what has become due"
)
RINGS_SPARED = counter(
    "notifications_suppressed", "Times that was not needed: this worker takes all of it itself"
)
HEARD = counter("notifications_received", "Notifications that reached this worker")
DROPPED = counter("events_dropped", "Events that a slow subscriber of the user's was not told of")
SUBSCRIBERS_FAILED = counter("subscribers_failed", "Times that a subscriber of the user's raised")
CHILDREN_DIED = counter("processes_died", "Worker processes that ended badly, with --processes")
LAG = histogram("loop_lag_seconds", "How late the event loop came to what was due, four times a second")
LAG_NOW = highest("loop_lag", "How late the event loop is now, in seconds")
SLOTS = gauge("worker_slots", "How many tasks may run at once")
BUSY = gauge("worker_busy", "How many run")
WAITING = gauge("worker_waiting", "Tasks that are claimed and wait for a slot")
UNWRITTEN = gauge("worker_unwritten", "Outcomes that are not written yet")
READY = gauge("worker_ready", "1 if /readyz says so, for each worker, added up")
SILENT = highest("database_silent_seconds", "For how long the database has confirmed no heartbeat")
LEADS = highest("is_leader", "1 if this process leads")
TERM = highest("leader_term", "The term of that; 0 without a leader")
PROCESSES = gauge("processes", "Worker processes that this port speaks for")
INFO = gauge("info", "Always 1, for each process, added up: which version runs", "version")

# Of the cluster: the leader's last sample, told by the leader alone.
DEPTH = sampled(
    "queue_tasks", "Live tasks of a queue by status, in the leader's last sample", "queue", "status"
)
OLDEST = highest(
    "queue_oldest_ready_seconds", "For how long the longest-waiting ready task could have run", "queue"
)
DEAD = sampled("queue_dead_letters", "Dead letters of a queue", "queue")
WORKERS = sampled("cluster_workers", "Workers by state", "state")
HORIZON = highest("horizon_age_seconds", "Age of the oldest transaction that holds a snapshot")
HORIZON_XIDS = highest("horizon_age_transactions", "The same in transactions begun since")
NOTIFY_USAGE = highest("notification_queue_usage_ratio", "How full PostgreSQL's NOTIFY queue is, 0 to 1")
LEAVES = highest("leaves_ahead", "Days after today that have their partition")
SAMPLE_TOOK = highest("sample_seconds", "How long the leader's last sample took")
SAMPLE_AGE = highest("sample_age_seconds", "How old it is")

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
OF_SAMPLE: tuple[Metric, ...] = METRICS[METRICS.index(DEPTH) :]
