"""Faults of the network, through the proxy of one process: a worker, or now and then a producer."""

from tests.chaos.schedule import Fault
from tests.chaos.targets import Targets, place_of

# A fault waits so long for a message of its process. It must not hit the first message of the next process there.
ARMED_SECONDS = 0.4


def lose_reply(targets: Targets, fault: Fault) -> int:
    """The server receives the next message, and the connection ends before the answer."""
    return arm(targets, fault, place_of(targets, fault).gate.after)


def lose_request(targets: Targets, fault: Fault) -> int:
    """The connection ends before the server receives the next message."""
    return arm(targets, fault, place_of(targets, fault).gate.before)


def arm(targets: Targets, fault: Fault, words: list[bytes]) -> int:
    if words:
        return 0  # the last one still waits for a message
    words.append(b"")

    def expire() -> None:
        if words:
            words.clear()
            targets.counts[fault.kind] -= 1

    targets.later(ARMED_SECONDS, expire)
    return 1


def reset(targets: Targets, fault: Fault) -> int:
    """End all connections of a process."""
    place_of(targets, fault).gate.cut()
    return 1


def delay(targets: Targets, fault: Fault) -> int:
    """Delay everything."""
    gate = place_of(targets, fault).gate
    gate.delay(0.02 + 0.1 * fault.how)
    targets.later(0.5 + fault.how, lambda: gate.delay(0.0))
    return 1


def swallow(targets: Targets, fault: Fault) -> int:
    """Swallow all data; the connections stay open."""
    gate = place_of(targets, fault).gate
    gate.swallow()

    def end() -> None:
        gate.silent = False
        gate.cut()

    targets.later(fault.how * 2 * targets.dead_after_seconds, end)
    return 1


def drop(targets: Targets, fault: Fault) -> int:
    """Drop all packets; none is acknowledged."""
    gate = place_of(targets, fault).gate
    gate.drop()
    targets.later(fault.how * 2 * targets.dead_after_seconds, gate.restore)
    return 1


def refuse(targets: Targets, fault: Fault) -> int:
    """Refuse the connections of one process."""
    gate = place_of(targets, fault).gate
    gate.shut()
    targets.later(fault.how * targets.dead_after_seconds, gate.open)
    return 1
