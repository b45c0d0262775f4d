"""Ghosts: tasks that the database holds in this worker's name, and that the worker does not know of."""

from collections.abc import Iterable

from orchestrator.task.claimed import Claimed


class Ghosts:
    """The tasks that the last report named. A busy worker may have finished such a task before it reads the report. So
    a task is a ghost only when two reports in a row name it."""

    def __init__(self) -> None:
        self._named: frozenset[tuple[int, int]] = frozenset()

    @property
    def are_suspected(self) -> bool:
        """Whether another look would confirm or clear some."""
        return bool(self._named)

    def confirmed(self, reported: Iterable[Claimed]) -> list[Claimed]:
        """Return those that the report before named, too."""
        found = {(task.id, task.lease): task for task in reported}
        ghosts = [task for key, task in found.items() if key in self._named]
        self._named = frozenset(found) - self._named
        return ghosts
