"""The ways to break the modelled protocol, and the size of a modelled system: two sets of plain values."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the protocol. The defaults are the product's; each other value is a known mistake."""

    # The write of an outcome compares this: the lease, the number of the attempt, or only the task's id.
    outcome_names: Literal["lease", "attempt", "id"] = "lease"
    # False: the lease comes from a sequence. A crash forgets the sequence's advance together with the claim.
    lease_is_random: bool = True
    # How a duty opens: it reads the own term under KEY SHARE, reads it without a lock, or does not read it.
    fence: Literal["locked", "read", "none"] = "locked"
    # Resigning locks the own row with the own term FOR UPDATE; or it does not lock; or it clears any leader.
    resigning: Literal["fenced", "unlocked", "whoever leads"] = "fenced"
    # Recovery checks again, in its write, that the worker is dead and still holds the task.
    recovery_repeats: bool = True
    # False: an orphan that had not started gets its attempt back.
    unstarted_are_charged: bool = False
    # A retry checks whether attempts are left.
    attempts_are_limited: bool = True
    # A beat reports ghosts, and the worker releases them. A claim whose reply is on its way is no ghost.
    reconciles: bool = True
    claim_on_its_way_is_held: bool = True
    # The server's clock decides that a worker is dead or that a term has run out. A client's clock may be ahead by a
    # tick.
    clients_clock_decides: Literal["nothing", "terms", "deaths"] = "nothing"
    # A beat renews only a term that is still the worker's own and has not run out.
    renewal_looks: bool = True
    # The commit of an election waits for the disk.
    election_is_durable: bool = True


@dataclass(frozen=True, slots=True)
class Bounds:
    """The size of the system that a walk sees. Claims, terms, crashes, kills and ticks are not bounded."""

    workers: int = 2
    tasks: int = 1
    attempts_max: int = 2
    losses_max: int = 2
    dead_after: int = 2
    term: int = 1
    # Manual changes: an operator's statements.
    manual_changes: bool = True
    crashes: bool = True
    kills: bool = True
    # Replies that are lost on their way from the server.
    losses_of_replies: bool = True
    # Duties that touch no task, and so need no dead worker.
    housekeeping: bool = True
    # Only for the variants whose leases come from a sequence: its numbers are counted and so need a bound.
    sequence_max: int = 4
