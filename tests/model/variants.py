"""The protocol with one mistake at a time: the mistake, the invariant that must catch it, and a small enough system.

A checker that reports nothing proves something only if it finds the mistakes that are there. Each of these is a
plausible mistake, and most of them are in the code of other queues. The walk must report the invariant that it breaks.
"""

from dataclasses import dataclass, replace

from tests.model import invariants
from tests.model.explore import Explorer, Walk
from tests.model.protocol import Queue
from tests.model.rules import Bounds, Rules

# Everything that can happen to two workers and a task of one attempt.
WORLD = Bounds(attempts_max=1, losses_max=1, housekeeping=False)
# The same without lost replies: small enough to run for each change of the code.
HEARD = replace(WORLD, losses_of_replies=False)
# A few mistakes need a larger system, and most need a much smaller one.
LEASES = Bounds(housekeeping=False)
LEADING = Bounds(tasks=0)
TRIO = Bounds(tasks=0, workers=3, term=2)
CALM = Bounds(
    attempts_max=1, losses_max=1, housekeeping=False, manual_changes=False, crashes=False, kills=False
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One mistake. `stuck`: no step breaks an invariant, but a task is left that no worker can end."""

    name: str
    rules: Rules
    caught_by: str
    bounds: Bounds = LEASES
    stuck: bool = False


VARIANTS = (
    Variant("no lease check at finish", Rules(outcome_names="id"), invariants.ONE_LEASE),
    Variant("attempt number as fence", Rules(outcome_names="attempt"), invariants.ONE_OUTCOME),
    Variant("lease from a sequence", Rules(lease_is_random=False), invariants.ONE_LEASE),
    Variant("no term check in the duty", Rules(fence="none"), invariants.LATEST, LEADING),
    Variant("fence without KEY SHARE", Rules(fence="read"), invariants.LATEST, LEADING),
    Variant("resigning without FOR UPDATE", Rules(resigning="unlocked"), invariants.LATEST, LEADING),
    Variant("resigning clears any leader", Rules(resigning="whoever leads"), invariants.OWN_TERM, LEADING),
    Variant("recovery that does not check again", Rules(recovery_repeats=False), invariants.ORPHANS),
    Variant("charging a task that had not started", Rules(unstarted_are_charged=True), invariants.FAIR),
    Variant("retrying without end", Rules(attempts_are_limited=False), invariants.COUNTED, CALM),
    Variant("no reconciliation of ghosts", Rules(reconciles=False), invariants.LIVE, CALM, stuck=True),
    Variant(
        "a claim whose reply is on its way is a ghost", Rules(claim_on_its_way_is_held=False), invariants.KEPT
    ),
    Variant(
        "a client's clock ends terms", Rules(clients_clock_decides="terms"), invariants.PATIENCE, LEADING
    ),
    Variant("a client's clock declares dead", Rules(clients_clock_decides="deaths"), invariants.PATIENCE),
    Variant("renewing a term that is over", Rules(renewal_looks=False), invariants.LATEST, LEADING),
    Variant(
        "election that does not wait for the disk",
        Rules(election_is_durable=False),
        invariants.RISING,
        LEADING,
    ),
)


def walked(variant: Variant) -> Walk:
    """Walk through a variant until an invariant catches it."""
    return Explorer(Queue(variant.bounds, variant.rules)).run(to_the_goal=variant.stuck)
