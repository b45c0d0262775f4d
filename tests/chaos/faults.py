"""Each kind of fault, and the function that causes it.

The function returns the number of faults: 0 if there was nothing to hit. `later` undoes a lasting fault. A fault that
needs a thread of its own runs in a thread for manual changes, which reports its end.
"""

from tests.chaos import network, postgres, processes
from tests.chaos.manual import CHANGES
from tests.chaos.schedule import Fault
from tests.chaos.targets import Strike, Targets


def manually(targets: Targets, fault: Fault) -> int:
    """A manual change with plain SQL."""
    targets.operators.do(fault.kind, fault.how, targets.newest)
    return 0


def pause(targets: Targets, fault: Fault) -> int:
    """Pause a queue for a moment."""
    return closed(targets, fault, "SELECT orchestrator.pause_queue(%s)")


def drain_queue(targets: Targets, fault: Fault) -> int:
    """Drain a queue for a moment: it accepts no new tasks."""
    return closed(targets, fault, "SELECT orchestrator.drain_queue(%s)")


def closed(targets: Targets, fault: Fault, statement: str) -> int:
    queue = ("default", "slow", "other")[int(fault.where * 3)]
    targets.operators.ask(
        fault.kind, lambda connection: connection.execute(statement.encode(), [queue]), queue
    )
    targets.later(0.2 + fault.how, lambda: targets.ask("SELECT orchestrator.resume_queue(%s)", queue))
    return 0


STRIKES: dict[str, Strike] = {
    "reply lost": network.lose_reply,
    "request lost": network.lose_request,
    "connections reset": network.reset,
    "delay": network.delay,
    "black hole": network.swallow,
    "packets dropped": network.drop,
    "connections refused": network.refuse,
    "worker killed": processes.kill,
    "worker frozen briefly": processes.freeze_briefly,
    "worker frozen beyond its lease": processes.freeze_long,
    "leader frozen beyond its term": processes.freeze_leader,
    "leader killed": processes.kill_leader,
    "worker stopped": processes.stop,
    "worker stopped twice": processes.stop_twice,
    "worker drained by an operator": processes.drain,
    "new version deployed": processes.deploy,
    "producer killed": processes.kill_producer,
    "poison enqueued": processes.poison,
    "backend terminated": postgres.terminate,
    "backend killed": postgres.kill_backend,
    "server restarted": postgres.restart,
    "server crashed": postgres.crash,
    "postmaster killed": postgres.kill_postmaster,
    "connections exhausted": postgres.crowd,
    "snapshot held": postgres.hold_snapshot,
    "rows locked": postgres.lock_rows,
    "queue paused": pause,
    "queue drained": drain_queue,
    **dict.fromkeys(CHANGES, manually),
}
