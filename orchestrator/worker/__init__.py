"""The conductor: the one room that knows every station, and carries a task from claim to outcome.

    start    heartbeat (schema checked, row and types written) → listener → outbox
    loop     sweep what is due → claim, ahead of the slots → slots: run, one attempt after another → outbox
             nothing there → say so, look again after 2, 10, 50, 250 ms, then sleep until rung or due
    watch    timeouts, the mark `running` on what lasts, what waits too long: one look at all slots (end_attempts.py)
    stop     no more claims → running tasks finish, up to the grace → the rest is given back uncharged
             → outcomes written → row marked stopped

A worker is one process and one row, with a new id at each start. Its beat comes from a thread with a connection of
its own, so that a handler which blocks the loop does not cost the worker its life. Who was declared dead all the
same has lost every lease; it drops what it holds and goes on under a new id.

`orchestrator worker --processes N` keeps several: `parent` says how, `child_process` and `parent_connection` are the
two ends of the line between them.

Connections: claims, outcomes, LISTEN, beat. Each heals on its own (postgres/session.py). Those that handlers ask for
come beside them (services.py): for transactions of their own, and one for the progress of all.
"""

from orchestrator.worker.worker import Worker

__all__ = ["Worker"]
