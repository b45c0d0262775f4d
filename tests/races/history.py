"""A finished schedule for the checks of the invariants: the moves and their actors, in order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.task.status import ChangedBy
from tests.invariants import moves as invariants
from tests.races.setup_rows import Columns, FinalRows
from tests.races.stepping import Actor, Story


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(invariants.Move):
    """One write of one task, with the actor of its session."""

    actor: Actor


@dataclass(frozen=True, slots=True)
class Past:
    """A finished schedule: the first tasks, the moves, the answers, the final rows."""

    started_with: frozenset[int]
    story: Story
    final_rows: FinalRows
    moves: tuple[Move, ...]


def moves(actors: Mapping[str, Actor], history: list[Columns]) -> Iterator[Move]:
    """Yield the writes in their order."""
    who = {
        name: ChangedBy.MANUAL if actor.kind == "operator" else ChangedBy.WORKER
        for name, actor in actors.items()
    }
    for made in invariants.from_history(history, who):
        yield Move(made.task_id, made.old, made.new, made.who, made.name, actor=actors[made.name])


def timed_out(move: Move) -> bool:
    """Return whether the leader ended it because of its timeout. Its worker may be alive then."""
    assert move.old is not None
    error = (move.new or {}).get("error") or {}
    return move.old["status"] == "running" and error.get("class") == "Timeout"
