"""The model of leases and terms: the real protocol holds in every state, and each way to break it is found."""

import pytest

from tests.model import invariants
from tests.model.explore import Explorer
from tests.model.protocol import Queue
from tests.model.rules import Bounds
from tests.model.variants import CALM, HEARD, TRIO, VARIANTS, WORLD, Variant, walked
from tests.tiers import long

# A model in which nothing happens would hold as well: the walk comes by each of these.
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
    "a hand requeues task 0, which is running",
    "a hand cancels task 0, which is claimed",
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
    [(HEARD, 100_000), long(WORLD, 700_000), long(Bounds(), 2_000_000)],
    ids=["every reply is heard", "one attempt", "two attempts and housekeeping"],
)
def test_the_protocol_holds_in_every_state(bounds: Bounds, states: int) -> None:
    """However often a worker claims, is elected, crashes, is killed, is late or is not heard: two workers, a task, and
    everything that can happen to them."""
    walk = Explorer(Queue(bounds)).run()

    assert None is walk.found, str(walk.found)
    assert walk.finished
    assert walk.states > states
    landmarks = LANDMARKS + (OF_LOST_REPLIES if bounds.losses_of_replies else ())
    assert [] == [step for step in landmarks if not walk.situations[step]]


@pytest.mark.long
def test_every_task_can_still_end_once_faults_stop() -> None:
    """Whatever replies were lost and whoever was late: no task is left with nobody who could end it."""
    walk = Explorer(Queue(CALM)).run(to_the_goal=True)

    assert None is walk.found, str(walk.found)
    assert walk.finished


@pytest.mark.long
def test_three_workers_never_lead_two_at_a_time() -> None:
    """With crashes that forget renewals, and kills, and no task to distract them."""
    walk = Explorer(Queue(TRIO)).run()

    assert None is walk.found, str(walk.found)
    assert walk.finished
    assert walk.situations["the server crashes and forgets a beat and a renewal"] > 0


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_broken_protocol_is_caught(variant: Variant) -> None:
    """By the invariant that it breaks, with a way to see it that a person can read."""
    found = walked(variant).found

    assert found is not None
    assert variant.caught_by == found.invariant
    assert len(found.trace) <= 12


def test_every_invariant_can_be_broken() -> None:
    """One that no variant breaks guards nothing that we know of."""
    broken = {variant.caught_by for variant in VARIANTS}
    known = {value for name, value in vars(invariants).items() if name.isupper()}

    assert known == broken
