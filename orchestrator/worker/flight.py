"""The claim that is on its way: tasks are ours from the moment it commits, and in our hands only when its answer has
been looked at. What is ours and in nobody's hands would be given back as a ghost, so the two must not be confused.
"""

from contextlib import suppress

from orchestrator.task.model import Claimed


class Flight:
    """At most one claim, under a lease of its own."""

    def __init__(self) -> None:
        self._lease: int | None = None
        # The same lease until somebody takes it: the loop, when the answer is there, or another thread, which then
        # gives back what the claim has found. A list, since one of the two gets it and never both.
        self._to_take: list[int] = []
        self._forsaken: int | None = None

    def depart(self, lease: int) -> None:
        """A claim is sent."""
        self._lease = lease
        self._to_take.append(lease)

    def arrive(self) -> bool:
        """Its answer is there; tell whether what it found is ours still."""
        with suppress(IndexError):
            self._to_take.pop()
            return True
        return False

    def end(self) -> None:
        """What it found is in somebody's hands."""
        self._to_take.clear()
        self._lease = self._forsaken = None

    def carries(self, task: Claimed) -> bool:
        """Tell whether a task was found by it."""
        return task.lease == self._lease

    def forsake(self) -> int | None:
        """Give up the claim, and return its lease: the caller gives back what it has found, and nobody looks at its
        answer. For another thread, while the loop is blocked."""
        with suppress(IndexError):
            self._forsaken = self._to_take.pop()
        return self._forsaken
