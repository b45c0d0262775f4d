"""Which duties the leader has, and how often it does each. Those of features come on top (worker/features.py)."""

from functools import partial

from orchestrator.lead import Duty
from orchestrator.maintain.delete_finished import Walk, finished
from orchestrator.maintain.partitions import partitions
from orchestrator.maintain.recover import Recovery
from orchestrator.maintain.retention import KINDS, retention
from orchestrator.maintain.sample import sample
from orchestrator.maintain.timeouts import any_overdue, timeouts

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
# How much later the next turn may come after a turn that found nothing to do, while no other worker lives and the
# leader holds no task: only the last claim of a worker that has stopped can be orphaned then, and no task can be late.
REST_SECONDS = 15.0
HOUSE_REST_SECONDS = 60.0
# A sample reads every live task: with millions of them it is taken less often.
SAMPLE_SHARE = 0.05


def urgent() -> list[Duty]:
    """Return the duties whose delay is noticed."""
    recovery = Recovery()
    return [
        Duty(
            "recover",
            RECOVER_EVERY_SECONDS,
            recovery,
            worth=recovery.is_worth,
            soon=recovery.soon,
            share=RECOVER_SHARE,
            rest_seconds=REST_SECONDS,
        ),
        Duty(
            "timeouts",
            TIMEOUTS_EVERY_SECONDS,
            timeouts,
            worth=any_overdue,
            delay_seconds=TIMEOUTS_DELAY_SECONDS,
            rest_seconds=REST_SECONDS,
        ),
    ]


def housekeeping() -> list[Duty]:
    """Return the duties that can wait."""
    return [
        Duty("sample", SAMPLE_EVERY_SECONDS, sample, share=SAMPLE_SHARE, rest_seconds=HOUSE_REST_SECONDS),
        Duty("partitions", HOUSE_EVERY_SECONDS, partitions, rest_seconds=RETENTION_EVERY_SECONDS),
        Duty(
            "finished",
            HOUSE_EVERY_SECONDS,
            partial(finished, walk=Walk()),
            rest_seconds=RETENTION_EVERY_SECONDS,
        ),
        *(
            Duty(kind.replace("_", " "), RETENTION_EVERY_SECONDS, partial(retention, kind=kind))
            for kind in KINDS
        ),
    ]
