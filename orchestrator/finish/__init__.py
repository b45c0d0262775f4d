"""Write outcomes: gather them, send a batch in one statement, fenced row by row by the lease.

An outcome whose lease no longer holds changes nothing. It is *stale*: the worker drops it and emits an event. If its
handler ran, `record_void.sql` still records that: one row in attempts for each lease; the first writer's row stays. The
worker sends an outcome again when the answer was lost; the lease makes that safe, and `recorded.sql` distinguishes a
repetition from a stale outcome. The outbox of a worker is bounded, and the worker does not claim while it is full.

The end of a lease that held permits, or of a task that feeds gates, also writes a row for each key (lease_ends.py). The
caller learns the keys, and tells the companions of features.

Lock order: task rows by id, always. A batch waits for the row locks of another transaction for `lock_timeout` at most.
Then it is sent again without the locked rows, so that one open transaction cannot hold up other outcomes.

A handler may complete its task itself, inside a transaction of its own (`own_transaction`). That outcome never comes to
the outbox, and the same lease decides between the two.
"""

from orchestrator.finish.announce import announce
from orchestrator.finish.lease_ends import LeaseEnds
from orchestrator.finish.outbox import Outbox
from orchestrator.finish.own_transaction import Steps, complete_within, take, take_async, was_committed
from orchestrator.finish.progress import Key, report
from orchestrator.finish.record import record, record_unlocked, release_now

__all__ = [
    "Key",
    "LeaseEnds",
    "Outbox",
    "Steps",
    "announce",
    "complete_within",
    "record",
    "record_unlocked",
    "release_now",
    "report",
    "take",
    "take_async",
    "was_committed",
]
