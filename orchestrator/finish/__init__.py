"""Write outcomes: gather them, send a batch in one statement, fenced row by row by the lease.

An outcome whose lease no longer holds changes nothing: it is *stale*, dropped, and said aloud. An outcome whose
answer was lost is sent again; the lease makes that safe, and `recorded.sql` tells a repetition from a stale one.
What a worker holds in its outbox is bounded, and a full outbox stops its claiming.

Lock order: task rows by id, always. Behind somebody's row locks a batch waits `lock_timeout` at most, then goes
again with the locked rows left out, so that one open transaction cannot hold up the others' outcomes.
"""

from orchestrator.finish.outbox import Outbox
from orchestrator.finish.record import record, record_unlocked, release_now

__all__ = ["Outbox", "record", "record_unlocked", "release_now"]
