"""The division of a claim's slots among queues."""

from collections import Counter

from orchestrator.claim import Share, Shares, in_turn
from orchestrator.task.claimed import Claimed, unknown


def found(**counts: int) -> list[Claimed]:
    """Return this number of tasks of each queue, queue by queue."""
    return [
        unknown(id=n, lease=1, queue=queue, type="work", attempt=1)
        for queue, count in counts.items()
        for n in range(count)
    ]


def served(shares: Shares, waiting: dict[str, int], wanted: int) -> Counter[str]:
    """Claim once, like the statement: in order, at most the limit of each queue, and in all no more than requested."""
    asked, taken = shares.of(wanted), Counter[str]()
    for queue, limit in asked:
        taken[queue] = min(limit, waiting[queue], wanted - taken.total())
        waiting[queue] -= taken[queue]
    shares.learn(asked, found(**taken), wanted=wanted)
    return taken


def test_full_queues_take_turns_slot_by_slot() -> None:
    """With any number of free slots, no queue is ever more than one slot ahead, claim after claim."""
    shares, waiting = Shares("abc"), dict.fromkeys("abc", 10_000)

    taken = Counter[str]()
    for wanted in [1, 1, 1, 2, 5, 4, 4, 7, 100, 3, 1, 20] * 5:
        taken += served(shares, waiting, wanted)
        assert max(taken.values()) - min(taken[queue] for queue in "abc") <= 1


def test_more_queues_than_slots_are_all_served() -> None:
    """With one slot and ten queues, ten claims serve each queue once."""
    shares, waiting = Shares("abcdefghij"), dict.fromkeys("abcdefghij", 100)

    taken = Counter[str]()
    for _ in range(10):
        taken += served(shares, waiting, 1)

    assert dict.fromkeys("abcdefghij", 1) == taken


def test_the_rest_of_a_short_queues_share_goes_to_the_others() -> None:
    """The first claim divides equally. From the second on no slot stays free while a queue has a task."""
    shares, waiting = Shares("abc"), {"a": 0, "b": 1000, "c": 2}

    assert {"a": 0, "b": 4, "c": 2} == served(shares, waiting, 12)
    assert {"a": 0, "b": 12, "c": 0} == served(shares, waiting, 12)


def test_a_queue_that_fills_again_has_its_share_at_once() -> None:
    """A short queue is claimed first, for an equal share."""
    shares, waiting = Shares("ab"), {"a": 0, "b": 1000}
    served(shares, waiting, 10)
    served(shares, waiting, 10)

    waiting["a"] = 1000
    assert [{"a": 5, "b": 5}] * 3 == [served(shares, waiting, 10) for _ in range(3)]


def test_a_claim_shows_whether_the_queues_may_hold_more() -> None:
    """A queue that gave its whole share may have more, even if slots stay free."""
    shares = Shares("ab")

    asked = shares.of(4)
    assert [Share("a", 2), Share("b", 2)] == asked
    assert shares.learn(asked, found(b=2), wanted=4)
    assert shares.learn(shares.of(4), found(b=4), wanted=4)
    assert not shares.learn(shares.of(4), found(b=3), wanted=4)


def test_one_queue_is_asked_for_everything() -> None:
    """There is nothing to divide."""
    shares = Shares(["default"])

    assert [Share("default", 20)] == shares.of(20)
    assert shares.learn(shares.of(20), found(default=20), wanted=20)
    assert not shares.learn(shares.of(20), found(default=19), wanted=20)


def test_tasks_run_in_turn() -> None:
    """One of each queue, then again; within a queue the order stays."""
    tasks = found(a=3, b=1, c=2)

    assert ["a", "b", "c", "a", "c", "a"] == [task.queue for task in in_turn(tasks, "abc")]
    assert [0, 1, 2] == [task.id for task in in_turn(tasks, "abc") if task.queue == "a"]
