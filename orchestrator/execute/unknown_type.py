"""Put back a task whose type this worker does not know: a deploy in the wrong order must not cost it an attempt."""

from orchestrator.task.outcome import Fault, Outcome, PutBack

# The first delay, doubled each time, and the longest.
PUT_BACK_SECONDS = 5.0
PUT_BACK_SECONDS_MAX = 300.0


def put_back(held: Outcome) -> PutBack:
    """Return the end that leaves the task to a worker that knows its type: with a delay and a visible reason. The
    attempt is not counted."""
    times = min((held.task.put_back or 0) + 1, 30)
    wait = min(PUT_BACK_SECONDS * 2 ** (times - 1), PUT_BACK_SECONDS_MAX)
    reason = (
        f"worker {held.worker_id} serves queue {held.task.queue} but has no handler for type {held.task.type}"
    )
    return PutBack(Fault("UnknownType", reason), wait, times)
