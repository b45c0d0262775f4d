"""Faults of processes: killed, frozen, stopped, replaced, poisoned."""

import signal
import time

from tests.chaos.fleet import Hired, Place
from tests.chaos.scene import Scene, worker_of
from tests.chaos.schedule import Fault


def kill(scene: Scene, fault: Fault) -> int:
    """kill -9."""
    return killed(scene, worker_of(scene, fault))


def kill_producer(scene: Scene, fault: Fault) -> int:
    """The same."""
    producers = scene.fleet.producers
    return killed(scene, producers[int(fault.where * len(producers))])


def killed(scene: Scene, place: Place) -> int:
    if place.hired is None or not place.hired.kill():
        return 0
    scene.fleet.hire(place)
    return 1


def kill_leader(scene: Scene, fault: Fault) -> int:
    """The leader."""
    leader = leading(scene)
    return killed(scene, leader) if leader is not None else 0


def freeze_briefly(scene: Scene, fault: Fault) -> int:
    """SIGSTOP, and SIGCONT before anybody minds."""
    return freeze(scene, worker_of(scene, fault).hired, (0.1 + 0.4 * fault.how) * scene.dead_after_seconds)


def freeze_long(scene: Scene, fault: Fault) -> int:
    """SIGSTOP, and SIGCONT when its tasks are others'."""
    return freeze(scene, worker_of(scene, fault).hired, (1.5 + fault.how) * scene.dead_after_seconds)


def freeze_leader(scene: Scene, fault: Fault) -> int:
    """The same with the leader, beyond its term."""
    leader = leading(scene)
    seconds = (1.5 + fault.how) * max(scene.term_seconds, scene.dead_after_seconds)
    return freeze(scene, leader.hired, seconds) if leader is not None else 0


def leading(scene: Scene) -> Place | None:
    pids = {pid for (pid,) in scene.ask("SELECT pid FROM orchestrator.workers WHERE is_leader")}
    found = [place for place in scene.fleet.workers if place.hired is not None and place.hired.pid in pids]
    return found[0] if found else None


def freeze(scene: Scene, hired: Hired | None, seconds: float) -> int:
    if hired is None or hired.frozen or not hired.signal(signal.SIGSTOP):
        return 0
    hired.frozen = True
    since = time.time()

    def thaw() -> None:
        hired.frozen = False
        scene.write("freezes", [since, hired.who, time.time()])
        hired.signal(signal.SIGCONT)

    scene.later(seconds, thaw)
    return 1


def stop(scene: Scene, fault: Fault) -> int:
    """SIGTERM; another takes the place while it drains."""
    return replaced(scene, worker_of(scene, fault))


def stop_twice(scene: Scene, fault: Fault) -> int:
    """SIGTERM, and again: it shall hurry."""
    place = worker_of(scene, fault)
    hired = place.hired
    if not replaced(scene, place):
        return 0
    assert hired is not None
    scene.later(0.3 * fault.how, hired.stop)
    return 1


def deploy(scene: Scene, fault: Fault) -> int:
    """A worker is replaced by one of the other version."""
    place = worker_of(scene, fault)
    place.version += 1
    return replaced(scene, place)


def replaced(scene: Scene, place: Place) -> int:
    if place.hired is None or not place.hired.stop():
        return 0
    scene.fleet.hire(place)
    return 1


def drain(scene: Scene, fault: Fault) -> int:
    """SELECT orchestrator.drain_worker(id)."""
    hired = worker_of(scene, fault).hired
    if hired is None:
        return 0
    hired.fates |= {0, 1}
    deed = (
        "SELECT orchestrator.drain_worker(id) FROM orchestrator.workers WHERE pid = %s AND state = 'running'"
    )
    scene.hands.ask(fault.kind, lambda connection: connection.execute(deed, [hired.pid]), hired.who)
    return 0


def poison(scene: Scene, fault: Fault) -> int:
    """A task that kills its process, three times."""
    return int(scene.enqueue_poison())
