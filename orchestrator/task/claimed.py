"""A task as a worker holds it: what the claim returned, and the lease under which its outcome may be written."""

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

payload_of = attrgetter("payload")


class Claimed(NamedTuple):
    """One claimed task, its fields in the order in which the claim returns them. The payload is still text: it is
    decoded inside the attempt, where a body that Python refuses costs one task and not the whole batch.

    A named tuple, and no dataclass: the driver's row is one but for its name (0.2 µs a task against 1.9).
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
    )  # how often a worker that does not know the type has given it back; None: it has no past
    position: int
    waited_seconds: float  # from when it could run until it was claimed
    trace_context: str | None  # JSON text, as it was enqueued

    @property
    def is_marked_first(self) -> bool:
        """Whether something went wrong with it before: it may kill workers, so it is marked before it starts."""
        return self.put_back is not None or self.losses > 0


def payload_length(tasks: Iterable[Claimed]) -> int:
    """Return how long the payloads of these are in all."""
    return sum(map(len, map(payload_of, tasks)))


def payload_memory(tasks: Iterable[Claimed]) -> int:
    """Return how many bytes the payloads of these take: a character outside of ASCII makes all of its text wider."""
    return sum(map(str.__sizeof__, map(payload_of, tasks)))


def are_whole(tasks: Iterable[Claimed]) -> bool:
    """Tell whether all of these came with their payload; without it, it is no text."""
    return all(map(payload_of, tasks))


def unknown(*, id: int, lease: int, queue: str, type: str, attempt: int) -> Claimed:  # noqa: A002 - as the columns
    """Return a task that is held without having been received: enough of it to be given back."""
    return Claimed(
        id=id, lease=lease, queue=queue, type=type, attempt=attempt, max_attempts=attempt, losses=0,
        timeout_seconds=0.0, payload="null", tags=None, metadata=None, put_back=None, position=0, waited_seconds=0.0,
        trace_context=None,
    )  # fmt: skip
