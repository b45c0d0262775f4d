"""Ghosts: tasks that are ours by the database, and in nobody's hands."""

from collections.abc import Iterable

from orchestrator.task.claimed import Claimed


class Ghosts:
    """Those that were named once. What the database said of a busy worker is past when it is read: a task may have been
    finished in between. Who is named twice is a ghost."""

    def __init__(self) -> None:
        self._named: frozenset[tuple[int, int]] = frozenset()

    @property
    def are_suspected(self) -> bool:
        """Whether another look would tell."""
        return bool(self._named)

    def confirmed(self, told: Iterable[Claimed]) -> list[Claimed]:
        """Return those that were named before, too."""
        found = {(task.id, task.lease): task for task in told}
        ghosts = [task for key, task in found.items() if key in self._named]
        self._named = frozenset(found) - self._named
        return ghosts
