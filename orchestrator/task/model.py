"""A task as a worker holds it: what the claim returned, and the lease under which its outcome may be written."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Claimed:
    """One claimed task. The payload is still text: it is decoded inside the attempt, where a body that Python
    refuses costs one task and not the whole batch."""

    id: int
    lease: int
    queue: str
    type: str
    attempt: int
    max_attempts: int
    losses: int
    priority: int
    timeout_seconds: float  # 0: none
    payload: str
    run_at: datetime
    created_at: datetime
    tags: tuple[str, ...]
    metadata: str | None
    put_back: int  # how often a worker that does not know the type has given it back


def unknown(*, id: int, lease: int, queue: str, type: str, attempt: int) -> Claimed:  # noqa: A002 - as the columns
    """Return a task that is held without having been received: enough of it to be given back."""
    never = datetime.fromtimestamp(0, UTC)
    return Claimed(
        id=id, lease=lease, queue=queue, type=type, attempt=attempt, max_attempts=attempt, losses=0, priority=0,
        timeout_seconds=0.0, payload="null", run_at=never, created_at=never, tags=(), metadata=None, put_back=0,
    )  # fmt: skip
