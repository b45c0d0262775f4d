"""Check each step of a generated history, independent of the reference. tests/invariants states the invariants."""

from collections.abc import Iterator

from orchestrator.task.status import ChangedBy
from tests.invariants.moves import Judge, Move, wrong_in
from tests.invariants.terms import Terms
from tests.stateful.interface import Row, Snapshot


class History:
    """The state kept during an example: the rows before the step, the used leases, and the last term."""

    def __init__(self) -> None:
        self._before: dict[int, Row] = {}
        self._judge = Judge()
        self._leadership: tuple[str, int] | None = None
        self._terms = Terms()

    def faults(self, found: Snapshot, *, who: ChangedBy, deleted: set[int]) -> list[str]:
        """Return the violations of this step, as text."""
        tasks = {task["id"]: task | {"worker_id": task["worker"]} for task in found["tasks"]}
        wrong = [*self._tasks(tasks, who, deleted), *self._leaders(found), *keys(found, tasks)]
        self._before = tasks
        return wrong

    def _tasks(self, tasks: dict[int, Row], who: ChangedBy, deleted: set[int]) -> Iterator[str]:
        if missing := self._before.keys() - tasks.keys() - deleted:
            yield f"I1: tasks {sorted(missing)} are gone"
        for task_id, task in tasks.items():
            yield from wrong_in(task)
            old = self._before.get(task_id)
            if old != task:
                yield from self._judge.faults(Move(task_id, old, task, who))

    def _leaders(self, found: Snapshot) -> Iterator[str]:
        leaders = [(str(worker["id"]), worker["term"]) for worker in found["workers"] if worker["is_leader"]]
        if leaders != [self._leadership]:
            self._terms.ends()
            self._leadership = None
            for self._leadership in leaders:
                yield from self._terms.begins(*self._leadership)


def keys(found: Snapshot, tasks: dict[int, Row]) -> Iterator[str]:
    holders = {key["key"]: key["task"] for key in found["keys"]}
    for key, holder in holders.items():
        if holder not in tasks:
            yield f"I11: the key {key} is held by task {holder}, which does not exist"
        latest = max((n for n, task in tasks.items() if task["key"] == key), default=None)
        if latest != holder:
            yield f"I11: the key {key} is held by task {holder}, and task {latest} has it"
