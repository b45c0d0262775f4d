"""Take ready tasks for one worker: claim a batch, make scheduled tasks that are due pending.

A claim is a hint: it commits without waiting for the disk. Only the outcome is a fact. The lease protects a task: a
random 63-bit number, drawn for each claim statement. A writer that does not name the lease changes nothing. A sequence
would not do: a server that crashes after an asynchronous commit forgets the claim *and* the sequence's advance,
and uses the same number again.

A claim leaves out every task with a `lane`. Those belong to the source of a feature (feature/source.py).

Only the database's clock counts here. When the answer to a claim is lost, the worker does not know what it holds. Its
beat returns the tasks that the database holds in its name. The worker gives back, uncharged, those that it does not
know.
"""

from orchestrator.claim.batch import Answer, batch, new_lease
from orchestrator.claim.plan import faults_of_plan
from orchestrator.claim.remaining import remaining
from orchestrator.claim.scan_positions import ScanPositions
from orchestrator.claim.shares import Share, Shares, in_turn
from orchestrator.claim.sweep import BATCH_SIZE as SWEEP_BATCH_SIZE
from orchestrator.claim.sweep import Swept, sweep

__all__ = [
    "SWEEP_BATCH_SIZE",
    "Answer",
    "ScanPositions",
    "Share",
    "Shares",
    "Swept",
    "batch",
    "faults_of_plan",
    "in_turn",
    "new_lease",
    "remaining",
    "sweep",
]
