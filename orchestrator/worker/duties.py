"""Which duties a leader does, and how often: the one place where they are wired."""

from orchestrator.config import Config
from orchestrator.lead import Duty
from orchestrator.maintain import Recovery, partitions

RECOVER_EVERY_SECONDS = 0.5
PARTITIONS_EVERY_SECONDS = 3600.0


def urgent(config: Config) -> list[Duty]:
    """Return what somebody waits for."""
    return [Duty("recover", RECOVER_EVERY_SECONDS, Recovery(config.dead_after_seconds))]


def housekeeping(_config: Config) -> list[Duty]:
    """Return what can wait."""
    return [Duty("partitions", PARTITIONS_EVERY_SECONDS, partitions)]
