"""Take ready tasks for one worker: claim a batch, free what has become due.

A claim is a hint, committed without waiting for the disk; only the outcome is a fact. What protects a task is
its lease, a random 63-bit number drawn for each claim statement: who cannot name it cannot write. A sequence
would not do: a server that crashes after an asynchronous commit forgets the claim *and* the sequence's advance,
and hands the same number out again.

Relies on the clock of the database alone. When the answer to a claim is lost, the caller does not know what it
holds; the worker's beat tells it, and what is in its name and not in its hands goes back, uncharged.
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
