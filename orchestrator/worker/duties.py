"""The leader's duties, and how often it does them: the one place where they are listed, but for those of features."""

from functools import partial

from orchestrator import maintain
from orchestrator.config import Config
from orchestrator.feature import Joined
from orchestrator.lead import Duty, Leader
from orchestrator.worker.connections import Connections
from orchestrator.worker.heartbeat import Heartbeat

RECOVER_EVERY_SECONDS = 1.0
# While a transaction holds an old snapshot, finding the workers that hold tasks reads many dead index entries.
RECOVER_SHARE = 0.2
TIMEOUTS_EVERY_SECONDS = 5.0
# A term may begin after the database was away: outcomes that had to wait are written first.
TIMEOUTS_DELAY_SECONDS = 10.0
# A leaf that a reader keeps from being dropped is tried again after so long.
HOUSE_EVERY_SECONDS = 60.0
RETENTION_EVERY_SECONDS = 300.0
SAMPLE_EVERY_SECONDS = 15.0
# A sample reads every live task: with millions of them it is taken less often.
SAMPLE_SHARE = 0.05


def leader(config: Config, connections: Connections, heartbeat: Heartbeat, features: Joined) -> Leader:
    """Return the part that stands for election and does these duties as the leader."""
    return Leader(
        connections.line,
        worker_id=lambda: heartbeat.worker_id,
        urgent=[*urgent(), *features.urgent],
        housekeeping=[*housekeeping(), *features.housekeeping],
        term_seconds=config.term_seconds,
    )


def urgent() -> list[Duty]:
    """Return the duties whose delay is noticed."""
    recovery = maintain.Recovery()
    return [
        Duty(
            "recover",
            RECOVER_EVERY_SECONDS,
            recovery,
            worth=recovery.is_worth,
            soon=recovery.soon,
            share=RECOVER_SHARE,
        ),
        Duty(
            "timeouts",
            TIMEOUTS_EVERY_SECONDS,
            maintain.timeouts,
            worth=maintain.any_overdue,
            delay_seconds=TIMEOUTS_DELAY_SECONDS,
        ),
    ]


def housekeeping() -> list[Duty]:
    """Return the duties that can wait."""
    return [
        Duty("sample", SAMPLE_EVERY_SECONDS, maintain.sample, share=SAMPLE_SHARE),
        Duty("partitions", HOUSE_EVERY_SECONDS, maintain.partitions),
        Duty("finished", HOUSE_EVERY_SECONDS, partial(maintain.finished, walk=maintain.Walk())),
        *(
            Duty(kind.replace("_", " "), RETENTION_EVERY_SECONDS, partial(maintain.retention, kind=kind))
            for kind in maintain.KINDS
        ),
    ]
