"""Judge the moves of tasks: each by itself (I3-I5, I10, I16), and all of a history together (I3, I5, I16)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.task.status import FINISHED, LEASED, ChangedBy, Status, may

Row = Mapping[str, Any]

# The trigger that writes all moves down, into watch.history.
WATCH = Path(__file__).with_name("watch.sql").read_bytes()


@dataclass(frozen=True, slots=True)
class Move:
    """One write of one task: from what, to what, by whom. No old row: it was made; no new row: it was deleted."""

    task_id: int
    old: Row | None
    new: Row | None
    who: ChangedBy
    name: str = ""

    @property
    def step(self) -> tuple[str | None, str | None]:
        """Both statuses."""
        return (self.old or {}).get("status"), (self.new or {}).get("status")

    @property
    def ended(self) -> tuple[int, int] | None:
        """The task and its lease, if this ends the lease."""
        if self.old is None or self.old["status"] not in LEASED:
            return None
        goes_on = self.new is not None and self.new["status"] in LEASED
        if goes_on and self.new is not None and self.new["lease"] == self.old["lease"]:
            return None
        return self.task_id, self.old["lease"]

    def __str__(self) -> str:
        by = self.name or f"a {self.who.name}"
        return f"{by} moved task {self.task_id} from {self.step[0]} to {self.step[1]}"


class Judge:
    """Judges the moves of a history one after the other: it knows where each task is, and which leases have ended."""

    def __init__(self) -> None:
        self._status: dict[int, str | None] = {}
        self._given: set[tuple[int, int]] = set()
        self._ended: set[tuple[int, int]] = set()

    def faults(self, move: Move) -> Iterator[str]:
        """Judge the next move: by itself, and after those before it."""
        before, after = move.step
        if (known := self._status.get(move.task_id, before)) != before:
            yield f"I16: {move}, and was {known}"
        self._status[move.task_id] = after
        yield from broken_by(move)
        yield from self._lease_faults(move)

    def _lease_faults(self, move: Move) -> Iterator[str]:
        if (ended := move.ended) is not None:
            if ended in self._ended:
                yield f"I5: {move}, and ended the lease {ended[1]} again"
            self._ended.add(ended)
        if move.new is None or move.new["status"] not in LEASED:
            return
        lease = move.task_id, move.new["lease"]
        if lease in self._ended:
            yield f"I3: {move}, and the lease {lease[1]} is back"
        if move.step[0] not in LEASED and lease in self._given:
            yield f"I3: {move}, and gave the lease {lease[1]} again"
        self._given.add(lease)


def wrong_in(task: Row) -> Iterator[str]:
    """Judge a row by itself."""
    what = f"task {task['id']} is {task['status']}"
    if not 0 <= task["attempt"] <= task["max_attempts"]:
        yield f"I10: {what}, at attempt {task['attempt']} of {task['max_attempts']}"
    holder = (task["lease"], task["worker_id"])
    if task["status"] in LEASED and None in holder:
        yield f"I3: {what}, and has no lease or no worker"
    if task["status"] not in LEASED | FINISHED and holder != (None, None):
        yield f"I3: {what}, under the lease {task['lease']} of {task['worker_id']}"
    if (task["status"] in FINISHED) != (task["finished_at"] is not None):
        yield f"I5: {what}, finished at {task['finished_at']}"


def broken_by(move: Move) -> Iterator[str]:
    """Judge one move by itself."""
    before, after = move.step
    if before is None and after in LEASED | FINISHED:
        yield f"I16: {move}, and was not there before"
    if before is None or after is None or move.old is None or move.new is None:
        return
    if before in FINISHED and move.who is not ChangedBy.MANUAL:
        yield f"I5: {move}"
    if before != after and not may(move.who, Status(before), Status(after)):
        yield f"I16: {move}"
    if before == Status.CLAIMED and move.new["losses"] > move.old["losses"]:
        yield f"I10: {move}, had not begun, and is charged a loss"
    held, left = move.old["lease"], move.new["lease"]
    if after in LEASED and held not in (None, left):
        yield f"I3: {move}, and gave the lease {left} where {held} held"
    if move.who is ChangedBy.MANUAL and before != after and left is not None:
        yield f"I4: {move}, and left the lease {left}"
    if move.who is ChangedBy.WORKER and after in FINISHED and left not in (None, held):
        yield f"I4: {move}, under the lease {left} where {held} held"


def from_history(lines: Iterable[Row], who: Mapping[str, ChangedBy] | None = None) -> Iterator[Move]:
    """Read what `watch.sql` wrote down; a row that left one leaf and entered another in one transaction moved once."""
    left: dict[int, Row] = {}
    for line in lines:
        task_id, name = line["task_id"], line["actor"]
        by = (who or {}).get(name, ChangedBy.WORKER)
        if line["new"] is None:
            left[task_id] = line
        elif line["old"] is None and left.get(task_id, {}).get("transaction") == line["transaction"]:
            yield Move(task_id, left.pop(task_id)["old"], line["new"], by, name)
        else:
            yield Move(task_id, line["old"], line["new"], by, name)
    for task_id, line in left.items():
        yield Move(
            task_id, line["old"], None, (who or {}).get(line["actor"], ChangedBy.WORKER), line["actor"]
        )
