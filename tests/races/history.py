"""A finished schedule, as the invariants see it: which actor made which move, in the order of the moves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.task.status import ChangedBy
from tests.invariants import moves as invariants
from tests.races.setup_rows import Columns, StartRows
from tests.races.stepping import Actor, Story


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(invariants.Move):
    """One write of one task, with the actor of its session."""

    actor: Actor


@dataclass(frozen=True, slots=True)
class Past:
    """A finished schedule: the rows before, the moves, the answers, the rows now."""

    started_with: frozenset[int]
    story: Story
    start_rows: StartRows
    moves: tuple[Move, ...]


def moves(actors: Mapping[str, Actor], history: list[Columns]) -> Iterator[Move]:
    """Yield the writes in their order."""
    who = {
        name: ChangedBy.MANUAL if actor.kind == "hand" else ChangedBy.WORKER for name, actor in actors.items()
    }
    for made in invariants.from_history(history, who):
        yield Move(made.task_id, made.old, made.new, made.who, made.name, actor=actors[made.name])


def timed_out(move: Move) -> bool:
    """Return whether the leader ended it because of its timeout; its worker may then live."""
    assert move.old is not None
    error = (move.new or {}).get("error") or {}
    return move.old["status"] == "running" and error.get("class") == "Timeout"
