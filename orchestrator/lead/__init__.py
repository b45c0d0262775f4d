"""Have one leader at a time: elect it, decide when it stops trusting its term, and prevent writes after that term.

Claims, retries and delayed starts need no leader. The duties need one: to take back the tasks of dead workers, to end
attempts that run too long, to do the housekeeping. One worker does them at a time, for as long as it leads:

              the lead is vacant, or its term is over,
              or its beacon has been gone for 2 s and no beat came
    candidate ──────────────────────────────────────────────► leader ──┐ each beat renews the term
        ▲                  draws a new term                     │  ▲    │
        │                                                       │  └────┘
        └───────────────────────────────────────────────────────┘
              resigned (shutdown) · the fence found no row · not renewed in time, by our own clock

The workers table is authoritative: a unique index lets one row at most have `is_leader`. A term is a number from a
sequence, drawn durably at each election. So terms strictly rise, and no `(worker, term)` comes twice.
All comparisons of time use the database's clock. Our own monotonic clock only makes us stop *earlier*, never later: we
trust a term for its length from the moment at which we *sent* the beat that renewed it.

The fence keeps two leaders apart, not a clock. The transaction of each duty first locks its own leader's row
FOR KEY SHARE; it names the worker, the term, and requires that the term has not run out. Without that row the duty
does nothing. Every write of `is_leader` or `term` (takeover and resignation) first locks that row FOR UPDATE, which
waits for a running duty. (An UPDATE alone would not wait: `is_leader` is no key, and a plain update gets past KEY
SHARE, as the leader's beat does.) So a duty commits before the next term begins, or writes nothing.

What each failure leads to:

    leader killed          its beacon goes with its session. The others see it gone for 2 s, then remove the leader.
                           From the first sight on, their duties look too: so workers that died with the leader are
                           taken back right after the election
    ... before it has one  its term runs out. So a worker without a beacon stands only when the lead was vacant for 4 s
    leader frozen          its term runs out. The server ends a transaction that it holds open (after half a term). When
                           it goes on, its fence finds no row, and it is a candidate like any other
    leader cut off         the same; its own clock stops it no later than the term ends
    duty fails             an event reports it; it runs again at its next turn; the other duties go on
    duty is slow           its group waits, the urgent one does not; the server ends it after half a term
    server crashes         it may forget the last renewals: the term ends sooner. It does not forget a drawn term
    server's clock jumps   forward: the term is over, an election follows. Back: a term that ends further ahead than two
                           terms counts as over. Either way at most one of them can pass the fence
    no worker is left      tasks wait; the next worker that starts takes them back

Lock order: the leader's row, then one's own, then other workers' rows, then tasks by id. An election does not use the
heartbeat's connection: it may wait for a lock, and a beat must not.
"""

from orchestrator.lead.duty_group import Duty, DutyGroup
from orchestrator.lead.elect import Gone, elect
from orchestrator.lead.fence import Leadership, TermOver, fenced
from orchestrator.lead.leader import BEACON_GRACE_SECONDS, Leader, View
from orchestrator.lead.resign import resign

__all__ = [
    "BEACON_GRACE_SECONDS",
    "Duty",
    "DutyGroup",
    "Gone",
    "Leader",
    "Leadership",
    "TermOver",
    "View",
    "elect",
    "fenced",
    "resign",
]
