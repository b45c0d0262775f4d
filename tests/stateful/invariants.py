"""What must hold whatever the reference says: the guarantees, read off the database before a step and after it.

I1   no task is lost: only a hand's DELETE takes one away
I3   one live lease a task, and no (task, lease) comes back once it has ended
I4   what a superseded lease writes changes nothing                    (machine.py: `finish`)
I5   an end is left by a hand alone
I8   one leader at the most, and terms strictly rise
I10  attempts stay within their number; what had not begun is never buried for its worker's death
I11  of the tasks with one key only the latest has it, and nobody has the key of a task that is gone
I16  every step from one status to the next is one that is allowed, to him who took it
"""

from collections.abc import Iterator

from orchestrator.task.status import FINISHED, LEASED, Status, Who, may
from tests.stateful.words import Row, Snapshot


class History:
    """What is remembered over a whole example: which leases have ended, and how far the terms have come."""

    def __init__(self) -> None:
        self._before: dict[int, Row] = {}
        self._ended: set[tuple[int, int]] = set()
        self._reign: tuple[int, int] | None = None
        self._term = 0

    def faults(self, found: Snapshot, *, who: Who, deleted: set[int]) -> list[str]:
        """Return what is wrong with this step, in words."""
        tasks = {task["id"]: task for task in found["tasks"]}
        wrong = [*self._tasks(tasks, who, deleted), *self._leaders(found), *keys(found, tasks)]
        self._before = tasks
        return wrong

    def _tasks(self, tasks: dict[int, Row], who: Who, deleted: set[int]) -> Iterator[str]:
        if missing := self._before.keys() - tasks.keys() - deleted:
            yield f"I1: tasks {sorted(missing)} are gone"
        for task_id, task in tasks.items():
            old = self._before.get(task_id)
            yield from standing(task)
            if old is not None and old != task:
                yield from step(old, task, who)
            yield from self._lease(old, task)

    def _lease(self, old: Row | None, task: Row) -> Iterator[str]:
        was_held = old is not None and old["status"] in LEASED
        if old and was_held and (task["status"] not in LEASED or task["lease"] != old["lease"]):
            self._ended.add((task["id"], old["lease"]))
        if task["status"] in LEASED and (task["id"], task["lease"]) in self._ended:
            yield f"I3: the lease {task['lease']} of task {task['id']} is back"

    def _leaders(self, found: Snapshot) -> Iterator[str]:
        reigns = [(worker["id"], worker["term"]) for worker in found["workers"] if worker["is_leader"]]
        if len(reigns) > 1:
            yield f"I8: {reigns} lead at once"
        for reign in reigns:
            if reign != self._reign and reign[1] <= self._term:
                yield f"I8: worker {reign[0]} leads in term {reign[1]}, after term {self._term}"
            self._reign, self._term = reign, max(self._term, reign[1])


def standing(task: Row) -> Iterator[str]:
    """Judge a task by itself."""
    if not 0 <= task["attempt"] <= task["max_attempts"]:
        yield f"I10: task {task['id']} is at attempt {task['attempt']} of {task['max_attempts']}"
    if (task["status"] in LEASED) and (task["lease"] is None or task["worker"] is None):
        yield f"I3: task {task['id']} is {task['status']}, and nobody's"
    if (task["status"] in FINISHED) != (task["finished_at"] is not None):
        yield f"I5: task {task['id']} is {task['status']}, finished at {task['finished_at']}"
    if task["status"] in ("pending", "scheduled") and (task["lease"], task["worker"]) != (None, None):
        yield f"I3: task {task['id']} waits, and is worker {task['worker']}'s"


def step(old: Row, new: Row, who: Who) -> Iterator[str]:
    """Judge what became of a task in one step."""
    before, after = Status(old["status"]), Status(new["status"])
    told = f"task {new['id']} went from {before} to {after}, by a {who.name}"
    if before in FINISHED and who is not Who.HAND:
        yield f"I5: {told}"
    if before != after and not may(who, before, after):
        yield f"I16: {told}"
    if before is Status.CLAIMED and new["losses"] > old["losses"]:
        yield f"I10: task {new['id']} had not begun, and is charged a loss"


def keys(found: Snapshot, tasks: dict[int, Row]) -> Iterator[str]:
    holders = {key["key"]: key["task"] for key in found["keys"]}
    for key, holder in holders.items():
        if holder not in tasks:
            yield f"I11: the key {key} is held by task {holder}, which is gone"
        latest = max((n for n, task in tasks.items() if task["key"] == key), default=None)
        if latest != holder:
            yield f"I11: the key {key} is held by task {holder}, and task {latest} has it"
