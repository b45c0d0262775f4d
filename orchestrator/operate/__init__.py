"""What a person or a program may do with tasks that exist: look at one, wait for one, cancel one; and let
them run in a copied database.

One function an act, over the SQL objects that psql would call. Reads and cancels in a transaction of its own, so a
task that its producer has not committed yet is not there.
"""

from orchestrator.operate.doctor import Finding, Patient, examine
from orchestrator.operate.explain import Explanation, explain
from orchestrator.operate.restore import Copy, Resumed, copied, resume_after_restore
from orchestrator.operate.state import TaskState, acancel, acurrent, cancel, current

__all__ = [
    "Copy",
    "Explanation",
    "Finding",
    "Patient",
    "Resumed",
    "TaskState",
    "acancel",
    "acurrent",
    "cancel",
    "copied",
    "current",
    "examine",
    "explain",
    "resume_after_restore",
]
