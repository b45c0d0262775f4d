"""A handle: what enqueueing returns. It reads the task's status and result.

A handle reads on connections of the application's own pool. So it sees a task only after the task's transaction has
committed. To wait, it polls: first after 10 ms, later every 500 ms. A NOTIFY for each completion would make all commits
wait for one another.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, overload

from orchestrator.app.producer import Producer
from orchestrator.enqueue import Enqueued, Many
from orchestrator.enqueue.request import text
from orchestrator.errors import EnqueueRefused, TaskCancelled, TaskExpired, TaskFailed
from orchestrator.operate import TaskState
from orchestrator.task import duration
from orchestrator.task.duration import Duration
from orchestrator.task.status import FINISHED

POLL_SECONDS = 0.010
POLL_SECONDS_MAX = 0.500
# A pool's first connection takes some milliseconds, but on a machine at load 30 longer than 0.1 s.
CONNECTION_SECONDS_MIN = 1.0


@dataclass(frozen=True, slots=True)
class Handle:
    """A task that is in the database once its transaction commits. `created` is false when another task has the same
    key: the handle is then that task's."""

    id: int
    created: bool
    _producer: Producer = field(repr=False, compare=False)

    @classmethod
    def of(cls, enqueued: Enqueued, producer: Producer) -> Self:
        """Return the handle of an enqueued task."""
        return cls(enqueued.id, enqueued.created, producer)

    def refresh(self) -> TaskState:
        """Return the task's current state. Raise TaskExpired when the task does not exist."""
        return self._look(None)

    async def arefresh(self) -> TaskState:
        """The same on the event loop."""
        return await self._alook(None)

    def status(self) -> str:
        """Return the task's status."""
        return self.refresh().status

    async def astatus(self) -> str:
        """The same on the event loop."""
        return (await self.arefresh()).status

    def result(self, *, timeout: Duration | None = None) -> Any:
        """Wait for the task to finish, and return what its handler returned.

        Raises TaskFailed when the task became a dead letter, TaskCancelled when it was cancelled, TaskExpired when it
        does not exist (deleted, pruned, or not committed yet), TimeoutError when it does not finish in time. With
        timeout 0 it looks once.
        """
        patience = Patience(self.id, timeout)
        while (state := self._look(patience.left())).status not in FINISHED:
            self._producer.pause(patience.next_wait())
        return outcome(self.id, state)

    async def aresult(self, *, timeout: Duration | None = None) -> Any:  # noqa: ASYNC109 - as its twin has it
        """The same on the event loop."""
        patience = Patience(self.id, timeout)
        while (state := await self._alook(patience.left())).status not in FINISHED:
            await self._producer.apause(patience.next_wait())
        return outcome(self.id, state)

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the task, also while it runs. Raise OperationRefused when the task has finished, TaskExpired when it
        does not exist."""
        self._producer.cancel(self.id, checked(reason))

    async def acancel(self, reason: str | None = None) -> None:
        """The same on the event loop."""
        await self._producer.acancel(self.id, checked(reason))

    def _look(self, within_seconds: float | None) -> TaskState:
        return present(self.id, self._producer.look(self.id, within_seconds))

    async def _alook(self, within_seconds: float | None) -> TaskState:
        return present(self.id, await self._producer.alook(self.id, within_seconds))


class Handles(Sequence[Handle]):
    """The handles of a set, in order. Each is made when it is read: a million ids take nine megabytes."""

    def __init__(self, many: Many, producer: Producer) -> None:
        self._many = many
        self._producer = producer

    def __len__(self) -> int:
        return len(self._many)

    @overload
    def __getitem__(self, index: int) -> Handle: ...

    @overload
    def __getitem__(self, index: slice) -> list[Handle]: ...

    def __getitem__(self, index: int | slice) -> Handle | list[Handle]:
        if isinstance(index, slice):
            return [Handle.of(enqueued, self._producer) for enqueued in self._many[index]]
        return Handle.of(self._many[index], self._producer)

    def __repr__(self) -> str:
        return f"<{len(self)} handles>"


class Patience:
    """How long to wait before each look, and when to stop looking."""

    def __init__(self, task_id: int, timeout: Duration | None) -> None:
        timeout = None if timeout is None else duration.seconds("timeout", timeout)
        self._task_id = task_id
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._wait_seconds = POLL_SECONDS

    def left(self) -> float | None:
        """Return how long a look may wait for a connection: at least CONNECTION_SECONDS_MIN, also with timeout 0."""
        return (
            None if self._deadline is None else max(CONNECTION_SECONDS_MIN, self._deadline - time.monotonic())
        )

    def next_wait(self) -> float:
        """Return the next wait. It never passes the deadline; after the deadline, raise TimeoutError."""
        wait_seconds, self._wait_seconds = self._wait_seconds, min(self._wait_seconds * 1.5, POLL_SECONDS_MAX)
        if self._deadline is None:
            return wait_seconds
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(
                f"task {self._task_id} has not finished within {self._timeout:g} s; it goes on"
            )
        return min(wait_seconds, left)


def checked(reason: str | None) -> str | None:
    """Return the reason. Raise ValueError if the database cannot hold it."""
    try:
        return None if reason is None else text("reason", reason)
    except EnqueueRefused as error:
        raise ValueError(str(error)) from None


def present(task_id: int, state: TaskState | None) -> TaskState:
    if state is None:
        raise TaskExpired(task_id)
    return state


def outcome(task_id: int, state: TaskState) -> Any:
    """Return the result of a completed task. Raise TaskCancelled or TaskFailed for any other end."""
    match state.status:
        case "completed":
            return state.result
        case "cancelled":
            raise TaskCancelled(task_id, state.cancelled_because)
        case _:
            error = state.error
            raise TaskFailed(
                task_id, *(error.class_name, error.message, error.traceback) if error else ("", "", "")
            )
