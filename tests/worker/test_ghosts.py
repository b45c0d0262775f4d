"""Which tasks are ghosts: ours in the database, held by no slot, and named in two reports."""

from orchestrator.task.claimed import Claimed, unknown
from orchestrator.worker.ghosts import Ghosts


def task(id: int, lease: int = 7) -> Claimed:  # noqa: A002 - as the column
    return unknown(id=id, lease=lease, queue="default", type="mail", attempt=1)


def test_a_task_that_is_named_once_is_no_ghost_yet() -> None:
    """It may have been finished before the database answered; the next look shows that."""
    ghosts = Ghosts()

    assert [] == ghosts.confirmed([task(1), task(2)])
    assert ghosts.are_suspected
    assert [task(2)] == ghosts.confirmed([task(2), task(3)])
    assert ghosts.are_suspected
    assert [task(3)] == ghosts.confirmed([task(3)])
    assert not ghosts.are_suspected


def test_a_task_that_is_named_again_later_is_no_ghost() -> None:
    """It must be named twice in a row, under the same lease; otherwise it was another claim."""
    ghosts = Ghosts()

    looks = [ghosts.confirmed(reported) for reported in ([task(1)], [], [task(1)], [task(1, lease=8)])]

    assert [[]] * 4 == looks


def test_a_ghost_is_given_back_once() -> None:
    """It may be named a third time during its release."""
    ghosts = Ghosts()

    looks = [ghosts.confirmed([task(1)]) for _ in range(3)]

    assert [[], [task(1)], []] == looks
