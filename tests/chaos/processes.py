"""Faults of processes: killed, frozen, stopped, replaced, killed by their own task."""

import signal
import time

from tests.chaos.fleet import Hired, Place
from tests.chaos.schedule import Fault
from tests.chaos.targets import Targets, worker_of


def kill(targets: Targets, fault: Fault) -> int:
    """Kill a worker with SIGKILL."""
    return killed(targets, worker_of(targets, fault))


def kill_producer(targets: Targets, fault: Fault) -> int:
    """The same with a producer."""
    producers = targets.fleet.producers
    return killed(targets, producers[int(fault.where * len(producers))])


def killed(targets: Targets, place: Place) -> int:
    if place.hired is None or not place.hired.kill():
        return 0
    targets.fleet.hire(place)
    return 1


def kill_leader(targets: Targets, fault: Fault) -> int:
    """The same with the leader."""
    leader = leading(targets)
    return killed(targets, leader) if leader is not None else 0


def freeze_briefly(targets: Targets, fault: Fault) -> int:
    """Stop a worker with SIGSTOP, and resume it before the stop has any effect."""
    return freeze(
        targets, worker_of(targets, fault).hired, (0.1 + 0.4 * fault.how) * targets.dead_after_seconds
    )


def freeze_long(targets: Targets, fault: Fault) -> int:
    """Stop a worker with SIGSTOP, and resume it when other workers have its tasks."""
    return freeze(targets, worker_of(targets, fault).hired, (1.5 + fault.how) * targets.dead_after_seconds)


def freeze_leader(targets: Targets, fault: Fault) -> int:
    """The same with the leader, beyond its term."""
    leader = leading(targets)
    seconds = (1.5 + fault.how) * max(targets.term_seconds, targets.dead_after_seconds)
    return freeze(targets, leader.hired, seconds) if leader is not None else 0


def leading(targets: Targets) -> Place | None:
    pids = {pid for (pid,) in targets.ask("SELECT pid FROM orchestrator.workers WHERE is_leader")}
    found = [place for place in targets.fleet.workers if place.hired is not None and place.hired.pid in pids]
    return found[0] if found else None


def freeze(targets: Targets, hired: Hired | None, seconds: float) -> int:
    if hired is None or hired.frozen or not hired.signal(signal.SIGSTOP):
        return 0
    hired.frozen = True
    since = time.time()

    def thaw() -> None:
        hired.frozen = False
        targets.write("freezes", [since, hired.who, time.time()])
        hired.signal(signal.SIGCONT)

    targets.later(seconds, thaw)
    return 1


def stop(targets: Targets, fault: Fault) -> int:
    """Send SIGTERM; another worker takes its place while it drains."""
    return replaced(targets, worker_of(targets, fault))


def stop_twice(targets: Targets, fault: Fault) -> int:
    """Send two SIGTERMs: it must hurry."""
    place = worker_of(targets, fault)
    hired = place.hired
    if not replaced(targets, place):
        return 0
    assert hired is not None
    targets.later(0.3 * fault.how, hired.stop)
    return 1


def deploy(targets: Targets, fault: Fault) -> int:
    """Replace a worker by one of the other version."""
    place = worker_of(targets, fault)
    place.version += 1
    return replaced(targets, place)


def replaced(targets: Targets, place: Place) -> int:
    if place.hired is None or not place.hired.stop():
        return 0
    targets.fleet.hire(place)
    return 1


def drain(targets: Targets, fault: Fault) -> int:
    """SELECT orchestrator.drain_worker(id)."""
    hired = worker_of(targets, fault).hired
    if hired is None:
        return 0
    hired.fates |= {0, 1}
    statement = (
        "SELECT orchestrator.drain_worker(id) FROM orchestrator.workers WHERE pid = %s AND state = 'running'"
    )
    targets.operators.ask(
        fault.kind, lambda connection: connection.execute(statement, [hired.pid]), hired.who
    )
    return 0


def poison(targets: Targets, fault: Fault) -> int:
    """Enqueue a task that kills its process, again and again, until it is a dead letter."""
    return int(targets.enqueue_poison())
