"""A schedule that is over, as the invariants look at it: who made which move, in the order in which they were made."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.races.ground import Columns, Ground
from tests.races.stepping import Actor, Story


@dataclass(frozen=True, slots=True)
class Move:
    """One write of one task: by whom, from what, to what. Leaving one leaf for another is one move."""

    actor: Actor
    task_id: int
    old: Columns | None
    new: Columns | None

    @property
    def step(self) -> tuple[str | None, str | None]:
        return (self.old or {}).get("status"), (self.new or {}).get("status")

    def __str__(self) -> str:
        return f"{self.actor.name} moved task {self.task_id} from {self.step[0]} to {self.step[1]}"


@dataclass(frozen=True, slots=True)
class Past:
    """A schedule that is over: what was there before, what was done, what was said, what is there now."""

    started_with: frozenset[int]
    story: Story
    ground: Ground
    moves: tuple[Move, ...]


def moves(actors: Mapping[str, Actor], history: list[Columns]) -> Iterator[Move]:
    """Yield the writes in their order; a row that left one leaf and entered another in one transaction moved once."""
    left: dict[int, Columns] = {}
    for line in history:
        task_id, actor = line["task_id"], actors[line["actor"]]
        if line["new"] is None:
            left[task_id] = line
        elif line["old"] is None and left.get(task_id, {}).get("transaction") == line["transaction"]:
            yield Move(actor, task_id, left.pop(task_id)["old"], line["new"])
        else:
            yield Move(actor, task_id, line["old"], line["new"])
    for task_id, line in left.items():
        yield Move(actors[line["actor"]], task_id, line["old"], None)


def timed_out(move: Move) -> bool:
    """Tell whether the leader ended it for its timeout: then its worker may live."""
    assert move.old is not None
    error = (move.new or {}).get("error") or {}
    return move.old["status"] == "running" and error.get("class") == "Timeout"
