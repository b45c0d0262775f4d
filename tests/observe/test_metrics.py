"""What happens is counted, once, under labels that no task can make up."""

from uuid import uuid4

from prometheus_client import CollectorRegistry, generate_latest

from orchestrator import events, observe


def counted(*happened: events.Event) -> dict[str, float]:
    """Let these happen, and return every counter that is not at zero."""
    registry = CollectorRegistry()
    stop = observe.count(registry)
    try:
        for event in happened:
            events.emit(event)
    finally:
        stop()
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    values = dict(line.rsplit(" ", 1) for line in lines if "_created" not in line)
    return {name: float(value) for name, value in values.items() if float(value)}


def test_late_writes_are_counted_by_queue() -> None:
    """As often as they are refused; the type, which anybody may make up, is no label."""
    late = [events.StaleOutcome(n, f"type {n}", "mail") for n in range(3)]

    assert {'orchestrator_stale_writes_rejected_total{queue="mail"}': 3.0} == counted(*late)


def test_what_was_recovered_is_counted_in_tasks() -> None:
    """And not in rounds."""
    recovered = [
        events.TasksRecovered(5, 1, 1),
        events.TasksRecovered(2, 0, 1),
        events.TimeoutsEnforced(0, 4),
    ]

    assert {
        'orchestrator_tasks_recovered_total{outcome="returned"}': 7.0,
        'orchestrator_tasks_recovered_total{outcome="buried"}': 1.0,
        'orchestrator_timeouts_enforced_total{outcome="buried"}': 4.0,
    } == counted(*recovered)


def test_duties_losses_and_lost_connections_are_counted() -> None:
    """Each under what it is called."""
    happened = [
        events.DutyFailed("recover", "ValueError", "no"),
        events.DutyPutOff("recover", "locked"),
        events.LeaseLost(1, "t", "mail", "cancelled"),
        events.GhostsReleased(2),
        events.WorkerDeclaredDead(uuid4(), uuid4(), 0),
        events.WorkerCutOff(uuid4(), uuid4(), 31.0),
        events.LeaderElected(uuid4(), 1),
        events.ConnectionLost("claims", "gone"),
    ]

    assert {
        'orchestrator_duties_failed_total{duty="recover"}': 2.0,
        'orchestrator_leases_lost_total{queue="mail"}': 1.0,
        "orchestrator_ghost_claims_released_total": 2.0,
        'orchestrator_workers_cut_off_total{by="database"}': 1.0,
        'orchestrator_workers_cut_off_total{by="own clock"}': 1.0,
        "orchestrator_elections_won_total": 1.0,
        'orchestrator_connections_lost_total{purpose="claims"}': 1.0,
    } == counted(*happened)


def test_a_success_is_not_counted_here() -> None:
    """There are hundreds of thousands of them: they are added up per batch, where they are written."""
    assert {} == counted(events.TaskCompleted(1, "t", "mail", 1))
