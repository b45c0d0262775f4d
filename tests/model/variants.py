"""The protocol, wrong in one way at a time: what each is, what must catch it, and how little of the world suffices.

A checker that finds nothing proves something only if it finds what is there. Each of these is a mistake that
somebody could make, most of them in other queues' code; the walk must come back with the invariant that it breaks.
"""

from dataclasses import dataclass, replace

from tests.model import invariants
from tests.model.explore import Explorer, Walk
from tests.model.protocol import Queue
from tests.model.rules import Bounds, Rules

# The whole world for two workers and a task that has one attempt.
WORLD = Bounds(attempts_max=1, losses_max=1, housekeeping=False)
# The same, small enough for each change.
HEARD = replace(WORLD, losses_of_replies=False)
# Some mistakes need more of it, and most much less.
LEASES = Bounds(housekeeping=False)
LEADING = Bounds(tasks=0)
TRIO = Bounds(tasks=0, workers=3, term=2)
CALM = Bounds(attempts_max=1, losses_max=1, housekeeping=False, hands=False, crashes=False, kills=False)


@dataclass(frozen=True, slots=True)
class Variant:
    """One mistake. `stuck`: it breaks no step, but leaves a task with nobody who could end it."""

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
    Variant("resigning for whoever leads", Rules(resigning="whoever leads"), invariants.OWN_TERM, LEADING),
    Variant("recovery that does not look again", Rules(recovery_repeats=False), invariants.ORPHANS),
    Variant("charging who had not started", Rules(unstarted_are_charged=True), invariants.FAIR),
    Variant("retrying without end", Rules(attempts_are_limited=False), invariants.COUNTED, CALM),
    Variant("no reconciliation of ghosts", Rules(reconciles=False), invariants.LIVE, CALM, stuck=True),
    Variant("a claim on its way taken for a ghost", Rules(claim_on_its_way_is_held=False), invariants.KEPT),
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
    """Walk through a variant until it is caught."""
    return Explorer(Queue(variant.bounds, variant.rules)).run(to_the_goal=variant.stuck)
