"""The ways to break the modelled protocol, and the size of the modelled world: two sets of plain values."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Rules:
    """The protocol's rules. The defaults are the product's; each other value is a known way to get it wrong."""

    # What the write of an outcome compares: the lease, the attempt's number, or only that the task is there.
    outcome_names: Literal["lease", "attempt", "id"] = "lease"
    # A number from a sequence, whose advance a crash forgets together with the claim.
    lease_is_random: bool = True
    # What opens a duty: a look at the own term under KEY SHARE, the look alone, or nothing.
    fence: Literal["locked", "read", "none"] = "locked"
    # Resigning locks the own row FOR UPDATE, with the own term; or does not lock; or clears whoever leads.
    resigning: Literal["fenced", "unlocked", "whoever leads"] = "fenced"
    # Recovery asks again, in its write, whether the worker is gone and the task still its own.
    recovery_repeats: bool = True
    # An orphan that had not started gets its attempt back.
    unstarted_are_charged: bool = False
    # A retry looks whether attempts are left.
    attempts_are_limited: bool = True
    # A beat tells of ghosts, which are given back; a claim on its way is no ghost.
    reconciles: bool = True
    claim_on_its_way_is_held: bool = True
    # Who is dead and whose term has run out is asked of the server's clock; a client's may be ahead by a tick.
    clients_clock_decides: Literal["nothing", "terms", "deaths"] = "nothing"
    # A beat renews only a term that is still its own and has not run out.
    renewal_looks: bool = True
    # The election waits for the disk.
    election_is_durable: bool = True


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of the world a walk sees. Claims, terms, crashes, kills and ticks are not bounded."""

    workers: int = 2
    tasks: int = 1
    attempts_max: int = 2
    losses_max: int = 2
    dead_after: int = 2
    term: int = 1
    hands: bool = True
    crashes: bool = True
    kills: bool = True
    # Replies lost on their way from the server.
    losses_of_replies: bool = True
    # Duties that touch no task, and so need nobody dead.
    housekeeping: bool = True
    # Only for the variants that draw numbers from a sequence, which cannot use forgotten names again.
    sequence_max: int = 4
