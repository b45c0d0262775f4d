"""Examine a server that runs tasks, and advise the operator: `orchestrator doctor`.

One function for each check, in the module of its subject, with its statement beside it: the server, the tables, the
notifications, the workers and the queues. A check reads and judges. It changes nothing: its transaction is rolled back.
A check that the role may not make is skipped, with a message; the other checks go on.

The cost is bounded, whatever the tables hold: no check counts all tasks, and each check has ten seconds.
"""

from orchestrator.operate.doctor.examine import examine
from orchestrator.operate.doctor.finding import Examination, Finding, Verdict

__all__ = ["Examination", "Finding", "Verdict", "examine"]
