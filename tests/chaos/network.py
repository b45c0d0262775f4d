"""Faults of the network, through the proxy of one process: a worker, or now and then a producer."""

from tests.chaos.scene import Scene, place_of
from tests.chaos.schedule import Fault

# Who says nothing for so long is not met; and it should not be the first word of the next in the place.
ARMED_SECONDS = 0.4


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
