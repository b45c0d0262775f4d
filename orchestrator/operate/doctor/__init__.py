"""Look a server over for whoever runs tasks on it, and say what to do: `orchestrator doctor`.

One function a check, in the room of what it looks at, with its statement beside it: the server, the tables, the
notifications, the workers and what waits for them. A check looks and judges; it changes nothing, and runs in a
transaction that is rolled back. What this role may not see is skipped and says so: the rest is still worth having.

Bounded, whatever the tables hold: no check counts tasks from end to end, and each is given ten seconds.
"""

from orchestrator.operate.doctor.examine import examine
from orchestrator.operate.doctor.finding import Examination, Finding, Verdict

__all__ = ["Examination", "Finding", "Verdict", "examine"]
