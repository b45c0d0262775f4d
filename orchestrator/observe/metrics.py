"""Count what happens, for Prometheus. Labels are bounded: never an id, nor anything a payload could hold."""

from collections.abc import Callable

from prometheus_client import REGISTRY, CollectorRegistry, Counter

from orchestrator import events

COUNTED: frozenset[type[events.Event]] = frozenset(
    {
        events.StaleOutcome,
        events.LeaseLost,
        events.GhostsReleased,
        events.TasksRecovered,
        events.TimeoutsEnforced,
        events.WorkerDeclaredDead,
        events.WorkerCutOff,
        events.LeaderElected,
        events.DutyFailed,
        events.DutyPutOff,
        events.ConnectionLost,
    }
)


class Counts:
    """The counters of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(name, what, labels, namespace="orchestrator", registry=registry)

        self.stale_writes = counter(
            "stale_writes_rejected", "Outcomes refused since their lease was void", "queue"
        )
        self.leases_lost = counter(
            "leases_lost", "Handlers told that their task is no longer theirs", "queue"
        )
        self.ghosts = counter("ghost_claims_released", "Tasks given back whose claim's answer was lost")
        self.recovered = counter("tasks_recovered", "Tasks taken back from dead workers", "outcome")
        self.timeouts = counter("timeouts_enforced", "Attempts ended that no worker had ended", "outcome")
        self.cut_off = counter(
            "workers_cut_off", "Times this worker gave its leases up, or had lost them", "by"
        )
        self.elections = counter("elections_won", "Times this worker was elected")
        self.duties_failed = counter(
            "duties_failed", "Duties that raised, or found a lock in their way", "duty"
        )
        self.connections_lost = counter(
            "connections_lost", "Statements that failed in a way that may pass", "purpose"
        )

    def count(self, event: events.Event) -> None:
        """Count one event."""
        match event:
            case events.StaleOutcome(queue=queue):
                self.stale_writes.labels(queue).inc()
            case events.LeaseLost(queue=queue):
                self.leases_lost.labels(queue).inc()
            case events.GhostsReleased(count=count):
                self.ghosts.inc(count)
            case events.TasksRecovered(returned=returned, buried=buried):
                self.recovered.labels("returned").inc(returned)
                self.recovered.labels("buried").inc(buried)
            case events.TimeoutsEnforced(retried=retried, buried=buried):
                self.timeouts.labels("retried").inc(retried)
                self.timeouts.labels("buried").inc(buried)
            case events.WorkerDeclaredDead():
                self.cut_off.labels("database").inc()
            case events.WorkerCutOff():
                self.cut_off.labels("own clock").inc()
            case events.LeaderElected():
                self.elections.inc()
            case events.DutyFailed(duty=duty) | events.DutyPutOff(duty=duty):
                self.duties_failed.labels(duty).inc()
            case events.ConnectionLost(purpose=purpose):
                self.connections_lost.labels(purpose).inc()
            case _:
                pass


def count(registry: CollectorRegistry = REGISTRY) -> Callable[[], None]:
    """Count every event from now on, in this registry; returns what ends it. Once for each registry."""
    return events.subscribe(Counts(registry).count, to=COUNTED)
