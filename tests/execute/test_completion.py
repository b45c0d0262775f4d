"""The states of an attempt that completes itself: the possible steps, and which step waits for which."""

import asyncio
import threading

import pytest

from orchestrator.errors import LeaseLost
from orchestrator.execute.completion import Completion


def test_a_task_is_completed_in_one_transaction_only() -> None:
    """After the commit there is no other transaction; before it, one after the other."""
    completion = Completion(7)
    completion.open()
    completion.end(committed=False)
    completion.open()
    completion.commit()
    completion.end(committed=True)

    assert completion.is_committed
    with pytest.raises(RuntimeError, match="task 7 is completed"):
        completion.open()


@pytest.mark.parametrize("committing", [False, True])
def test_there_is_one_transaction_at_a_time(committing: bool) -> None:
    """Also while the first one commits."""
    completion = Completion(7)
    completion.open()
    if committing:
        completion.commit()

    with pytest.raises(RuntimeError, match="is open already"):
        completion.open()


def test_an_attempt_that_has_ended_commits_nothing() -> None:
    """Neither what is open nor what would be opened; and what is open is interrupted."""
    interrupted: list[str] = []
    completion = Completion(7)
    completion.open(lambda: interrupted.append("once"))
    completion.close()
    completion.close()

    with pytest.raises(LeaseLost, match="the attempt has ended"):
        completion.commit()
    completion.end(committed=False)
    with pytest.raises(LeaseLost):
        completion.open()
    assert ["once"] == interrupted


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_in_progress_is_waited_for(committed: bool) -> None:
    """A commit in another thread is not interrupted: its answer decides."""
    completion = Completion(7)
    completion.open(lambda: pytest.fail("it was interrupted"))
    completion.commit()
    thread = threading.Thread(target=lambda: completion.end(committed=committed))

    async def main() -> bool:
        settled = asyncio.ensure_future(completion.settled())
        await asyncio.sleep(0)
        assert not settled.done()
        thread.start()
        return await asyncio.wait_for(settled, 10)

    assert committed is asyncio.run(main())
    assert committed is completion.is_committing
    thread.join()


async def test_a_waiter_may_be_cancelled_and_wait_again() -> None:
    """The wait changes nothing."""
    completion = Completion(7)
    completion.open()
    completion.commit()

    first = asyncio.ensure_future(completion.settled())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    completion.end(committed=True)

    assert await completion.settled()
