"""A task as a worker holds it: the row of the claim, with the lease under which the outcome may be written."""

from typing import NamedTuple


class Claimed(NamedTuple):
    """One claimed task, its fields in the order in which the claim returns them. The payload is still text: the
    attempt decodes it, so that a body that Python refuses fails one task and not the whole batch.

    A named tuple, and no dataclass: the driver's row needs only another class (0.2 µs a task instead of 1.9).
    """

    id: int
    lease: int
    queue: str
    type: str
    attempt: int
    max_attempts: int
    losses: int
    timeout_seconds: float  # 0: none
    payload: str
    tags: list[str] | None
    metadata: str | None
    put_back: (
        int | None
    )  # how often workers that do not know the type gave it back; None: nothing went wrong yet
    position: int
    waited_seconds: float  # from the time when it could run to the claim
    trace_context: str | None  # JSON text, as it was enqueued


def unknown(*, id: int, lease: int, queue: str, type: str, attempt: int) -> Claimed:  # noqa: A002 - as the columns
    """Return a task that the worker holds without having received it: enough to give it back."""
    return Claimed(
        id=id, lease=lease, queue=queue, type=type, attempt=attempt, max_attempts=attempt, losses=0,
        timeout_seconds=0.0, payload="null", tags=None, metadata=None, put_back=None, position=0, waited_seconds=0.0,
        trace_context=None,
    )  # fmt: skip
