"""The leader's duties: one `.py` and one or two `.sql` files each. Each round is bounded; no handler code runs here.

Each duty repeats its predicate in its write, by the database's clock: two runs at once do the same as one. It runs
inside its caller's transaction, and returns True when it should be called again at once.
"""

from orchestrator.maintain.delete_finished import Walk, finished
from orchestrator.maintain.partitions import partitions
from orchestrator.maintain.recover import Recovered, Recovery, recover
from orchestrator.maintain.retention import KINDS, Kind, retention
from orchestrator.maintain.sample import sample
from orchestrator.maintain.timeouts import any_overdue, timeouts

__all__ = [
    "KINDS",
    "Kind",
    "Recovered",
    "Recovery",
    "Walk",
    "any_overdue",
    "finished",
    "partitions",
    "recover",
    "retention",
    "sample",
    "timeouts",
]
