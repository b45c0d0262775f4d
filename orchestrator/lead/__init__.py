"""Be the only one: elect a leader, know when to stop believing it, and let nothing be written in a term that is over.

Claims, retries and delayed starts need no leader. Duties do: taking back what dead workers held, ending what runs too
long, keeping the house. One worker does them at a time, for as long as it holds the lead:

              the lead is vacant, or its term is over,
              or its beacon has been gone for 2 s and no beat came
    candidate ──────────────────────────────────────────────► leader ──┐ each beat renews the term
        ▲                  draws a new term                     │  ▲    │
        │                                                       │  └────┘
        └───────────────────────────────────────────────────────┘
              resigned (shutdown) · the fence found no row · not renewed in time, by our own clock

The workers table is authoritative: one row may have `is_leader`, by a unique index. A term is a number from a
sequence, drawn durably at each election, so terms strictly rise, and `(worker, term)` names a reign for ever.
All comparisons of time are the database's. Our own monotonic clock only makes us stop *earlier*, never later: a reign
is trusted for one term from the moment at which the beat that renewed it was *sent*.

What keeps two leaders apart is no clock, but the fence. Every duty's transaction first locks its own leader's row
FOR KEY SHARE, naming itself, its term, and a term that has not run out; no row, no duty. Every write of
`is_leader` or `term`, takeover and resignation both, first locks that row FOR UPDATE, which waits for a duty that runs.
(An UPDATE alone would not: `is_leader` is no key, and a plain update gets past KEY SHARE. That is why the leader's beat
does.) So a duty either commits before the next term begins, or writes nothing.

What each failure leads to:

    leader killed          its beacon goes with its session; others see it dark for 2 s, and depose it. Whoever sees it
                           lets its duties look from then on: workers that died too are taken back at once after that
    ... before it has one  its term runs out. So a worker without a beacon stands only when the lead was vacant for 4 s
    leader frozen          its term runs out; a transaction it holds open is ended by the server (half a term); when it
                           goes on, its fence finds no row, and it is a candidate like any other
    leader cut off         the same; its own clock stops it no later than the term does
    duty fails             told, tried again at its next turn; the other duties go on
    duty is slow           its lane waits, the urgent lane does not; half a term, and the server ends it
    server crashes         renewals of the last moment may be forgotten: the term ends sooner. A drawn term is not.
    server's clock jumps   forward: the term is over, an election follows. Back: a term that ends further ahead than two
                           terms counts as over. Either way at most one reign can pass the fence.
    nobody is left         tasks wait, and are taken back when the next worker starts

Lock order: the leader's row, then one's own, then other workers' rows, then tasks by id. No election shares the
heartbeat's connection: it may wait for a lock, and a beat must not.
"""

from orchestrator.lead.elect import Gone, elect
from orchestrator.lead.fence import Leadership, TermOver, fenced
from orchestrator.lead.lane import Duty, Lane
from orchestrator.lead.leader import BEACON_GRACE_SECONDS, Leader, View
from orchestrator.lead.resign import resign

__all__ = [
    "BEACON_GRACE_SECONDS",
    "Duty",
    "Gone",
    "Lane",
    "Leader",
    "Leadership",
    "TermOver",
    "View",
    "elect",
    "fenced",
    "resign",
]
