"""The model of leases and terms: the real protocol is correct in every state, and each broken variant is caught."""

import pytest

from tests.model import invariants
from tests.model.explore import Explorer
from tests.model.protocol import Queue
from tests.model.rules import Bounds
from tests.model.variants import CALM, HEARD, TRIO, VARIANTS, WORLD, Variant, walked
from tests.tiers import long

# A model in which nothing happens breaks no invariant either. So the walk must take each of these steps.
LANDMARKS = (
    "A sends its outcome of task 0: refused as stale",
    "A may not start task 0: stale",
    "A beats and learns that it lost task 0",
    "A beats and learns that it was declared dead",
    "A takes over from B",
    "A would take over, and waits for a duty",
    "A would resign, and waits for its own duty",
    "A resigns, and did not lead any more",
    "A opens a duty, finds its term over and steps down",
    "A commits: B is dead, its tasks are back",
    "the server ends the duty of A, which took too long",
    "the server crashes and forgets a claim",
    "the server crashes and forgets a start",
    "the server crashes and forgets a beat",
    "an operator requeues task 0, which is running",
    "an operator cancels task 0, which is claimed",
    "a new worker A begins",
)
OF_LOST_REPLIES = (
    "A sends its outcome of task 0 (completed): accepted, and the reply is lost",
    "A sends its outcome of task 0 again: known already",
    "the reply to the claim of A is lost",
    "A beats and finds the ghost of task 0",
    "A gives back the ghost of task 0",
    "A gives back the ghost of task 0: gone already",
)


@pytest.mark.parametrize(
    ("bounds", "states"),
    [long(HEARD, 100_000), long(WORLD, 700_000), long(Bounds(), 2_000_000)],
    ids=["no lost reply", "one attempt", "two attempts and housekeeping"],
)
def test_the_protocol_holds_in_every_state(bounds: Bounds, states: int) -> None:
    """Two workers and a task break no invariant, however often a worker claims, is elected, is killed or is late, the
    server crashes, and a reply is lost."""
    walk = Explorer(Queue(bounds)).run()

    assert None is walk.found, str(walk.found)
    assert walk.finished
    assert walk.states > states
    landmarks = LANDMARKS + (OF_LOST_REPLIES if bounds.losses_of_replies else ())
    assert [] == [step for step in landmarks if not walk.situations[step]]


@pytest.mark.long
def test_every_task_can_still_end_once_faults_stop() -> None:
    """After any lost replies and late beats, every task that is left can still be ended by a worker."""
    walk = Explorer(Queue(CALM)).run(to_the_goal=True)

    assert None is walk.found, str(walk.found)
    assert walk.finished


@pytest.mark.long
def test_of_three_workers_two_never_lead_at_once() -> None:
    """With kills, with crashes that forget renewals, and without tasks."""
    walk = Explorer(Queue(TRIO)).run()

    assert None is walk.found, str(walk.found)
    assert walk.finished
    assert walk.situations["the server crashes and forgets a beat and a renewal"] > 0


@pytest.mark.parametrize(
    "variant",
    # To find that a task is stuck takes a walk through every state.
    [long(variant) if variant.stuck else variant for variant in VARIANTS],
    ids=[variant.name for variant in VARIANTS],
)
def test_a_broken_protocol_is_caught(variant: Variant) -> None:
    """The invariant that it breaks catches it, with a trace short enough to read."""
    found = walked(variant).found

    assert found is not None
    assert variant.caught_by == found.invariant
    assert len(found.trace) <= 12


def test_every_invariant_can_be_broken() -> None:
    """An invariant that no variant breaks may check nothing."""
    broken = {variant.caught_by for variant in VARIANTS}
    known = {value for name, value in vars(invariants).items() if name.isupper()}

    assert known == broken
