"""What a handler may know of its attempt, if it has a parameter annotated `Context`."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.task import payload
from orchestrator.task.model import Claimed


@dataclass(frozen=True, slots=True)
class Context:
    """One attempt, seen from inside. `lease` is a fencing token for the handler's own tables."""

    id: int
    type: str
    queue: str
    attempt: int
    max_attempts: int
    lease: int
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    _stop: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    _told: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """Whether the attempt's outcome no longer counts: a `def` handler should look, and return."""
        if self._stop.is_set():
            self._told.set()
            return True
        return False

    @property
    def was_told(self) -> bool:
        """Whether the handler has looked, and seen that it is cancelled."""
        return self._told.is_set()

    def cancel(self) -> None:
        """Tell the handler that its outcome no longer counts."""
        self._stop.set()


def of(task: Claimed) -> Context:
    """Make the context of a claimed task."""
    return Context(
        id=task.id,
        type=task.type,
        queue=task.queue,
        attempt=task.attempt,
        max_attempts=task.max_attempts,
        lease=task.lease,
        tags=tuple(task.tags or ()),
        metadata=payload.decode(task.metadata, root="metadata") if task.metadata is not None else {},
    )
