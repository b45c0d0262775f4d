"""Each kind of fault, done to whatever is there: processes, the proxies before them, the server, the tasks.

A strike returns how many faults it was: 0 when there was nothing to strike. What lasts is undone later, by `later`;
what takes a thread of its own is told of when it is over, by the hands.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Protocol

import psycopg

from tests.chaos.fleet import Fleet, Hired, Place, as_role
from tests.chaos.hands import DEEDS, Hands
from tests.chaos.schedule import Fault
from tests.servers import Server

CROWD_MAX = 300
# Who says nothing for so long is not met; and it should not be the first word of the next in the place.
ARMED_SECONDS = 0.4
BACKENDS = """
SELECT pid FROM pg_stat_activity WHERE usename IN ('chaos_worker', 'chaos_producer') AND pid <> pg_backend_pid()
ORDER BY pid
"""


class Scene(Protocol):
    """What a fault may strike, and how it is undone."""

    fleet: Fleet
    hands: Hands
    server: Server
    newest: int
    dead_after_seconds: float
    term_seconds: float

    @property
    def counts(self) -> Counter[str]:
        """How many faults there were, by kind."""

    def ask(self, statement: str, *params: object) -> list[tuple[object, ...]]:
        """Ask the server, as its superuser; nothing, when it is away."""

    def later(self, seconds: float, undo: Callable[[], object]) -> None:
        """Do this after so long."""

    def enqueue_poison(self) -> bool:
        """Enqueue a task that kills its process."""


Strike = Callable[[Scene, Fault], int]


def place_of(scene: Scene, fault: Fault) -> Place:
    """Return the place that is struck; a producer's, now and then."""
    places = [*scene.fleet.workers, *scene.fleet.workers, *scene.fleet.producers]
    return places[int(fault.where * len(places))]


def worker_of(scene: Scene, fault: Fault) -> Place:
    return scene.fleet.workers[int(fault.where * len(scene.fleet.workers))]


# The network.


def lose_reply(scene: Scene, fault: Fault) -> int:
    """Let the server hear what is said next, and end the connection before it has answered."""
    return arm(scene, fault, place_of(scene, fault).gate.after)


def lose_request(scene: Scene, fault: Fault) -> int:
    """End the connection that says something next, unheard."""
    return arm(scene, fault, place_of(scene, fault).gate.before)


def arm(scene: Scene, fault: Fault, words: list[bytes]) -> int:
    if words:
        return 0  # the last one has not met anything yet
    words.append(b"")

    def expire() -> None:
        if words:
            words.clear()
            scene.counts[fault.kind] -= 1

    scene.later(ARMED_SECONDS, expire)
    return 1


def reset(scene: Scene, fault: Fault) -> int:
    """End all connections of a process."""
    place_of(scene, fault).gate.cut()
    return 1


def delay(scene: Scene, fault: Fault) -> int:
    """Let everything take its time."""
    gate = place_of(scene, fault).gate
    gate.delay(0.02 + 0.1 * fault.how)
    scene.later(0.5 + fault.how, lambda: gate.delay(0.0))
    return 1


def swallow(scene: Scene, fault: Fault) -> int:
    """Connections stand, and nothing comes through."""
    gate = place_of(scene, fault).gate
    gate.swallow()

    def end() -> None:
        gate.silent = False
        gate.cut()

    scene.later(fault.how * 2 * scene.dead_after_seconds, end)
    return 1


def drop(scene: Scene, fault: Fault) -> int:
    """No packet comes through, and none is acknowledged."""
    gate = place_of(scene, fault).gate
    gate.drop()
    scene.later(fault.how * 2 * scene.dead_after_seconds, gate.restore)
    return 1


def refuse(scene: Scene, fault: Fault) -> int:
    """The server is not to be reached by one process."""
    gate = place_of(scene, fault).gate
    gate.shut()
    scene.later(fault.how * scene.dead_after_seconds, gate.open)
    return 1


# Processes.


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

    def thaw() -> None:
        hired.frozen = False
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


# PostgreSQL.


def backends(scene: Scene) -> list[int]:
    return [int(str(pid)) for (pid,) in scene.ask(BACKENDS)]


def terminate(scene: Scene, fault: Fault) -> int:
    """pg_terminate_backend."""
    found = backends(scene)
    if not found:
        return 0
    scene.ask("SELECT pg_terminate_backend(%s)", found[int(fault.where * len(found))])
    return 1


def kill_backend(scene: Scene, fault: Fault) -> int:
    """kill -9 of a backend: the server ends all sessions, and recovers."""
    found = backends(scene)
    if not found:
        return 0
    with suppress(ProcessLookupError):
        os.kill(found[int(fault.where * len(found))], signal.SIGKILL)
    return 1


def restart(scene: Scene, _fault: Fault) -> int:
    """A fast restart."""
    scene.server.restart("fast")
    return 1


def crash(scene: Scene, _fault: Fault) -> int:
    """An immediate stop, and recovery."""
    scene.server.restart("immediate")
    return 1


def kill_postmaster(scene: Scene, _fault: Fault) -> int:
    """kill -9 of the postmaster."""
    scene.server.kill()
    scene.server.start()
    return 1


def crowd(scene: Scene, fault: Fault) -> int:
    """All connections are taken."""
    url = as_role(scene.server.url("chaos"), "chaos_crowd")
    stack = ExitStack()
    # Ends: there are only so many.
    with suppress(psycopg.OperationalError):
        for _ in range(CROWD_MAX):
            stack.enter_context(psycopg.connect(url, connect_timeout=2))

    def leave() -> None:
        with suppress(psycopg.Error):
            stack.close()

    scene.later(0.3 + 0.5 * fault.how * scene.dead_after_seconds, leave)
    return 1


def hold_snapshot(scene: Scene, fault: Fault) -> int:
    """An old snapshot is held."""
    scene.hands.look(fault.kind, 1 + 4 * fault.how)
    return 0


def lock_rows(scene: Scene, fault: Fault) -> int:
    """A hand's open UPDATE."""
    scene.hands.lock(fault.kind, 0.2 + 1.5 * fault.how)
    return 0


# Hands.


def by_hand(scene: Scene, fault: Fault) -> int:
    """Plain SQL."""
    scene.hands.do(fault.kind, fault.how, scene.newest)
    return 0


def pause(scene: Scene, fault: Fault) -> int:
    """A queue is paused for a moment."""
    return closed(scene, fault, "SELECT orchestrator.pause_queue(%s)")


def drain_queue(scene: Scene, fault: Fault) -> int:
    """A queue takes no new tasks for a moment."""
    return closed(scene, fault, "SELECT orchestrator.drain_queue(%s)")


def closed(scene: Scene, fault: Fault, deed: str) -> int:
    queue = ("default", "slow", "other")[int(fault.where * 3)]
    scene.hands.ask(fault.kind, lambda connection: connection.execute(deed.encode(), [queue]), queue)
    scene.later(0.2 + fault.how, lambda: scene.ask("SELECT orchestrator.resume_queue(%s)", queue))
    return 0


STRIKES: dict[str, Strike] = {
    "reply lost": lose_reply,
    "request lost": lose_request,
    "connections reset": reset,
    "delay": delay,
    "black hole": swallow,
    "packets dropped": drop,
    "connections refused": refuse,
    "worker killed": kill,
    "worker frozen briefly": freeze_briefly,
    "worker frozen beyond its lease": freeze_long,
    "leader frozen beyond its term": freeze_leader,
    "leader killed": kill_leader,
    "worker stopped": stop,
    "worker stopped twice": stop_twice,
    "worker drained by hand": drain,
    "new version deployed": deploy,
    "producer killed": kill_producer,
    "poison enqueued": poison,
    "backend terminated": terminate,
    "backend killed": kill_backend,
    "server restarted": restart,
    "server crashed": crash,
    "postmaster killed": kill_postmaster,
    "connections exhausted": crowd,
    "snapshot held": hold_snapshot,
    "rows locked": lock_rows,
    "queue paused": pause,
    "queue drained": drain_queue,
    **dict.fromkeys(DEEDS, by_hand),
}
