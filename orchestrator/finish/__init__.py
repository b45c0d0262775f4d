"""Write outcomes: gather them, send a batch in one statement, fenced row by row by the lease.

An outcome whose lease no longer holds changes nothing: it is *stale*, dropped, and said aloud. That its handler ran
goes on record all the same (`record_void.sql`): one row in attempts for each lease, whoever writes it first. An outcome
whose answer was lost is sent again; the lease makes that safe, and `recorded.sql` tells a repetition from a stale one.
What a worker holds in its outbox is bounded, and a full outbox stops its claiming.

Lock order: task rows by id, always. Behind somebody's row locks a batch waits `lock_timeout` at most, then goes
again with the locked rows left out, so that one open transaction cannot hold up the others' outcomes.

A handler may complete its task itself, inside a transaction of its own (`own_transaction`): that outcome never comes to
the outbox, and the same lease decides between the two.
"""

from orchestrator.finish.announce import announce
from orchestrator.finish.outbox import Outbox
from orchestrator.finish.own_transaction import Steps, complete_within, take, take_async, was_committed
from orchestrator.finish.progress import report
from orchestrator.finish.record import record, record_unlocked, release_now

__all__ = [
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
