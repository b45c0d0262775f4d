"""Put back a task whose type this worker does not know: a deploy in the wrong order must not cost it an attempt."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from uuid import UUID

from orchestrator.finish import Outbox
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Fault, Outcome, PutBack

# The first delay, doubled each time, and the longest.
PUT_BACK_SECONDS = 5.0
PUT_BACK_SECONDS_MAX = 300.0

TYPE = attrgetter("type")


def types_unknown(tasks: Iterable[Claimed], knows: Callable[[str], bool]) -> set[str]:
    """Return the types of these tasks that the worker does not know. Check each type once: a batch has few."""
    return {kind for kind in set(map(TYPE, tasks)) if not knows(kind)}


def put_back(outbox: Outbox, task: Claimed, *, worker_id: UUID) -> None:
    """Put the task back for a worker that knows its type: with a delay and a visible reason. The attempt is not
    counted."""
    times = min((task.put_back or 0) + 1, 30)
    wait = min(PUT_BACK_SECONDS * 2 ** (times - 1), PUT_BACK_SECONDS_MAX)
    reason = f"worker {worker_id} serves queue {task.queue} but has no handler for type {task.type}"
    outbox.put(Outcome(task, PutBack(Fault("UnknownType", reason), wait, times)), worker_id=worker_id)
