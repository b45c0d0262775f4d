"""Make the parts of a worker that are connected to several others: its listener and its leader."""

from orchestrator import notify
from orchestrator.config import Config
from orchestrator.feature import Joined
from orchestrator.lead import Leader
from orchestrator.maintain import duties
from orchestrator.notify.idle_wait import IdleWait
from orchestrator.postgres.connections import Connections
from orchestrator.worker.heartbeat import Heartbeat
from orchestrator.worker.ledger import Ledger


def listener(
    connections: Connections, config: Config, *, rest: IdleWait, heartbeat: Heartbeat
) -> notify.Listener:
    """Return the listener: each kind of notification goes to the part that acts on it."""
    calls = notify.Calls(
        rung=rest.ring,
        called=heartbeat.look,
        hears=rest.hears,
        beacon_changed=heartbeat.take_beacon,
        ring=heartbeat.ring,
        rang_at=lambda: heartbeat.rang_at,
    )
    session = connections.session("listener")
    return notify.Listener(session, worker_id=heartbeat.worker_id, queues=config.queues, calls=calls)


def leader(
    config: Config, connections: Connections, heartbeat: Heartbeat, features: Joined, ledger: Ledger
) -> Leader:
    """Return the part that stands for election, and does the duties as the leader."""
    return Leader(
        connections.line,
        worker_id=lambda: heartbeat.worker_id,
        urgent=[*duties.urgent(), *features.urgent],
        housekeeping=[*duties.housekeeping(), *features.housekeeping],
        term_seconds=config.term_seconds,
        is_idle=lambda: ledger.is_empty,
    )
