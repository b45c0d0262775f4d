"""Make a worker's listener: it connects each kind of notification to the part of the worker that acts on it."""

from orchestrator import notify
from orchestrator.config import Config
from orchestrator.worker.connections import Connections
from orchestrator.worker.heartbeat import Heartbeat
from orchestrator.worker.idle_wait import IdleWait


def listener(
    connections: Connections, config: Config, *, rest: IdleWait, heartbeat: Heartbeat
) -> notify.Listener:
    """Return the listener of a worker."""
    calls = notify.Calls(
        rung=rest.ring,
        called=heartbeat.look,
        hears=rest.hears,
        beacon_changed=heartbeat.take_beacon,
        ring=heartbeat.ring,
        rang_at=lambda: heartbeat.rang_at,
    )
    return notify.Listener(
        connections.session("listener"), worker_id=heartbeat.worker_id, queues=config.queues, calls=calls
    )
