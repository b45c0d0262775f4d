"""The context of an attempt: its data, and what a handler can do in it. For handlers with a parameter annotated
`Context`.

A context is made for each attempt of such a handler, on a hot path. So its parts are made when they are first used, and
the worker passes everything else in one object (`Services`).
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self

import psycopg

from orchestrator.execute.completion import GUARD, Completion
from orchestrator.task import payload
from orchestrator.task.claimed import Claimed

PROGRESS_BYTES_MAX = 16_384
RESULT_BYTES_MAX = 1_048_576


class Logger(Protocol):
    """A structlog logger, bound to the task."""

    def bind(self, **fields: Any) -> Self:
        """Return a logger that adds these fields to each line."""

    def debug(self, event: str, /, **fields: Any) -> Any:
        """Write a line."""

    def info(self, event: str, /, **fields: Any) -> Any:
        """Write a line."""

    def warning(self, event: str, /, **fields: Any) -> Any:
        """Write a line."""

    def error(self, event: str, /, **fields: Any) -> Any:
        """Write a line."""

    def exception(self, event: str, /, **fields: Any) -> Any:
        """Write a line, with the exception that is being handled."""


class Transaction(Protocol):
    """The value of `context.transaction()`: for `async with` on the worker's loop, and `with` in a thread."""

    async def __aenter__(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        """Begin."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Complete the task and commit, or roll back."""

    def __enter__(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Complete the task and commit, or roll back."""


class Services(Protocol):
    """What a worker provides for its handlers."""

    @property
    def result_bytes_max(self) -> int:
        """The largest result, in bytes."""

    def transaction(self, context: "Context") -> Transaction:
        """Return a transaction that completes this attempt."""

    def report(self, task: Claimed, progress: str) -> None:
        """Note a task's progress, as JSON text. Any thread may call this."""

    async def reported(self, task: Claimed) -> None:
        """Wait until the last progress is written, but not for long."""

    def logger(self, task: Claimed) -> Logger:
        """Return a logger that names the task."""


class Nowhere:
    """The services outside of a worker's process, as in a child process: there are none."""

    def __init__(self, result_bytes_max: int = RESULT_BYTES_MAX) -> None:
        self.result_bytes_max = result_bytes_max

    def transaction(self, context: "Context") -> NoReturn:
        """Refuse."""
        raise self._refusal("transaction()")

    def report(self, task: Claimed, progress: str) -> NoReturn:
        """Refuse."""
        raise self._refusal("progress()")

    async def reported(self, task: Claimed) -> None:
        """Return at once: there is no progress to write."""

    def logger(self, task: Claimed) -> NoReturn:
        """Refuse."""
        raise self._refusal("log")

    def _refusal(self, name: str) -> RuntimeError:
        return RuntimeError(
            f"context.{name} needs the worker's own process, and this handler runs outside of it; "
            'leave executor="process" out, and it runs in a thread of the worker'
        )


NOWHERE = Nowhere()


class Context:
    """The handler's view of its attempt. `lease` is a fencing token for the handler's own tables."""

    __slots__ = (
        "_begun_at",
        "_cancel_was_seen",
        "_completion",
        "_log",
        "_metadata",
        "_progress",
        "_result",
        "_services",
        "_stop",
        "_task",
    )

    def __init__(self, task: Claimed, services: Services = NOWHERE, begun_at: float | None = None) -> None:
        self._task = task
        self._begun_at = begun_at
        self._services = services
        self._stop = self._cancel_was_seen = self._progress = False
        self._completion: Completion | None = None
        self._result: str | None = None
        self._metadata: Mapping[str, Any] | None = None
        self._log: Logger | None = None

    def __repr__(self) -> str:
        task = self._task
        return f"Context(id={task.id}, type={task.type!r}, attempt={task.attempt}, lease={task.lease})"

    def __reduce__(self) -> tuple[type[Self], tuple[Claimed]]:
        # Only the task goes into another process, not the worker's services.
        return type(self), (self._task,)

    @property
    def id(self) -> int:
        """The task's id, the same in each attempt."""
        return self._task.id

    @property
    def type(self) -> str:
        return self._task.type

    @property
    def queue(self) -> str:
        return self._task.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._task.attempt

    @property
    def max_attempts(self) -> int:
        return self._task.max_attempts

    @property
    def lease(self) -> int:
        return self._task.lease

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self._task.tags or ())

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata as enqueued, decoded at first use."""
        if self._metadata is None:
            text = self._task.metadata
            self._metadata = payload.decode(text, root="metadata") if text is not None else {}
        return self._metadata

    @property
    def log(self) -> Logger:
        """A logger that names the task and the attempt in each line."""
        if self._log is None:
            self._log = self._services.logger(self._task)
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether the attempt's outcome no longer counts: a `def` handler should look, and return."""
        if self._stop:
            self._cancel_was_seen = True
        return self._stop

    def transaction(self) -> Transaction:
        """Return a transaction that completes this task when it commits: its writes and the completion are atomic."""
        return self._services.transaction(self)

    def result(self, value: object) -> None:
        """Set the task's result, for a handler that returns None or completes its task in a transaction."""
        self._result = payload.encode_result(value, bytes_max=self._services.result_bytes_max)

    def progress(self, value: object) -> None:
        """Report progress: any JSON value, shown while the task runs. Never waits; the last value counts."""
        text = payload.encode_result(value, bytes_max=PROGRESS_BYTES_MAX, root="progress")
        self._services.report(self._task, text)
        self._progress = True

    # For the worker.

    @property
    def cancel_was_seen(self) -> bool:
        """Whether the handler has read `cancelled` and got True."""
        return self._cancel_was_seen

    @property
    def task(self) -> Claimed:
        return self._task

    @property
    def begun_at(self) -> float | None:
        """When the handler started, by the monotonic clock."""
        return self._begun_at

    @property
    def result_text(self) -> str | None:
        """The value passed to `result`, as JSON text."""
        return self._result

    @property
    def completion(self) -> Completion:
        """How far the handler has come in completing the task itself."""
        if self._completion is None:
            with GUARD:
                self._completion = self._completion or Completion(self._task.id)
            if self._stop:
                # Another thread has cancelled the attempt, perhaps before there was a completion to close.
                self._completion.close()
        return self._completion

    @property
    def is_completing(self) -> bool:
        """Whether the handler has completed the task itself, or may have by now."""
        return self._completion is not None and self._completion.is_committing

    def cancel(self) -> None:
        """Set `cancelled`: the attempt's outcome no longer counts."""
        self._stop = True
        if self._completion is not None:
            self._completion.close()

    async def ended(self) -> bool:
        """After the handler: wait for its COMMIT and its progress. Return whether it has completed its task itself."""
        if self._completion is not None and await self._completion.settled():
            return True
        if self._progress and not self._stop:
            await self._services.reported(self._task)
        return False


def of(task: Claimed, services: Services = NOWHERE, begun_at: float | None = None) -> Context:
    """Make the context of a claimed task."""
    return Context(task, services, begun_at)
