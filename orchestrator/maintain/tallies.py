"""Count the attempts that the leader ended in place of a worker, as that worker would count them (task/tally.py)."""

from collections import Counter
from collections.abc import Sequence
from typing import cast
from uuid import UUID

from orchestrator import events
from orchestrator.task.buckets import histogram
from orchestrator.task.tally import Tally, Word

# Queue, type, how the attempt ended, and for how many seconds it had waited and run, if known.
Ended = tuple[str, str, Word, float | None, float | None]


def emit_written(leader: UUID | None, ended: Sequence[Ended] | None) -> None:
    """Emit one event for all of them."""
    if ended and leader is not None and events.wanted(events.OutcomesWritten):
        groups: dict[tuple[str, str], list[Ended]] = {}
        for row in ended:
            groups.setdefault((row[0], row[1]), []).append(row)
        tallies = tuple(tally(queue, kind, rows) for (queue, kind), rows in groups.items())
        events.emit(events.OutcomesWritten(leader, None, tallies))


def tally(queue: str, kind: str, rows: Sequence[Ended]) -> Tally:
    counts = cast("Counter[Word]", Counter(word for _, _, word, *_ in rows))
    timed = [(wait, run) for *_, wait, run in rows if wait is not None and run is not None]
    return Tally(
        queue,
        kind,
        counts,
        histogram(wait for wait, _ in timed),
        histogram(run for _, run in timed),
        histogram(wait + run for wait, run in timed),
    )
