"""One worker: it carries a task from the claim to the outcome. The only room that uses all the others.

    start    heartbeat (schema checked, row and types written) → listener → outbox
    loop     sweep what is due → claim, ahead of the slots → slots: run, one attempt after another → outbox
             nothing found → mark the row idle, look again after 2, 10, 50, 250 ms, then sleep until rung or due
    watch    one look at all slots (end_attempts.py): timeouts, the mark `running` on attempts that last, tasks that
             wait too long for a slot
    stop     no more claims → running tasks finish, up to the grace → the other tasks are released, not counted
             → outcomes written → row marked stopped

Every task that the worker holds is in its ledger (ledger.py), in one state: begin to read there.

A worker is one process and one row, with a new id at each start. Its beat comes from a thread with a connection of
its own, so a handler that blocks the loop does not get the worker declared dead. If the worker is declared dead all
the same, it has lost every lease. It drops its tasks and goes on under a new id.

Features plug in at features.py. They claim tasks of their own (feature_claims.py), act after ends of leases, and add
duties of the leader.

Connections: claims, outcomes, LISTEN, beat, and one for each feature that uses it. Each reconnects on its own
(postgres/session.py). Handlers use others (services/): some for their own transactions, and one for the progress of all
tasks. processes/ says which processes workers run in.
"""

from orchestrator.worker.worker import Worker

__all__ = ["Worker"]
