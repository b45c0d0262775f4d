"""All exceptions of this package, in one tree.

The docstring of a class is its message if the caller gives none.

    OrchestratorError
    ├── ConfigError            a setting, a flag or an address is wrong
    │   └── RegistryError      a task is declared twice, without a usable name, or for an executor that cannot run it
    ├── SchemaError            the database's schema and this package do not fit together
    │   └── DatabaseRestored       its tasks are a copy: a restored dump, a cloned database
    ├── DatabaseUnavailable    the database could not be reached, or refused the login
    │   └── EmbeddedServerError    the embedded PostgreSQL could not be started
    ├── EnqueueRefused         the database refused a new task (draining queue, taken key, bad option)
    │   └── PayloadRefused     the payload cannot be stored and given back unchanged
    ├── EnqueueInDoubt         the connection broke before the answer: the task may be enqueued or not
    ├── OperationRefused       the database refused to show or to change a task (finished already, no right)
    ├── LeaseLost              why a handler is cancelled: its lease on the task is void
    ├── ExecutorCrashed        the process that ran a handler ended before the handler did
    ├── TaskFailed             a caller waited for a task, and it became a dead letter
    ├── TaskCancelled          a caller waited for a task, and it was cancelled
    └── TaskExpired            a caller waited for a task that does not exist

    HandlerSignal              what a handler raises to say how its attempt ended; never an error
    ├── Retry(after)           this attempt failed; try again after this long
    ├── Snooze(after)          run again later; this attempt does not count
    ├── Cancel(reason)         the task is not wanted any more; it ends as cancelled
    └── Discard(reason)        another attempt is useless; it becomes a dead letter at once
"""

from datetime import timedelta


class OrchestratorError(Exception):
    """Something went wrong in orchestrator."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigError(OrchestratorError):
    """A setting is wrong."""


class SchemaError(OrchestratorError):
    """The database's schema does not fit this version of orchestrator; run `orchestrator migrate`."""


class DatabaseRestored(SchemaError):
    """The tasks in this database are a copy. Nothing runs here until an operator resumes it."""

    def __init__(self, origins: str) -> None:
        super().__init__(
            f"the tasks in this database are a copy: {origins}. A restored dump or a cloned database runs nothing "
            "until an operator resumes it, because the original may be running the same tasks. If they are to run "
            "here, make sure that no worker runs them there, then run `orchestrator resume --after-restore`"
        )
        self.origins = origins


class DatabaseUnavailable(OrchestratorError):
    """The database could not be reached; check that it runs and that the URL is right."""


class EmbeddedServerError(DatabaseUnavailable):
    """The embedded PostgreSQL could not be started."""


class EnqueueRefused(OrchestratorError):
    """The database refused the new task. In a set, `item` is the index of the refused one."""

    def __init__(
        self,
        message: str | None = None,
        *,
        sqlstate: str | None = None,
        hint: str | None = None,
        item: int | None = None,
    ) -> None:
        super().__init__(f"{message}. {hint}" if message and hint else message)
        self.sqlstate = sqlstate
        self.hint = hint
        self.item = item


class PayloadRefused(EnqueueRefused):
    """The payload cannot be stored and given back unchanged."""

    def __init__(
        self, path: str, reason: str, *, sqlstate: str | None = None, item: int | None = None
    ) -> None:
        super().__init__(f"{path} {reason}", sqlstate=sqlstate, item=item)
        self.path = path
        self.reason = reason


class EnqueueInDoubt(OrchestratorError):
    """The connection broke before the database answered: the tasks may be enqueued or not.

    With a key, enqueue again: that is safe, and shows which. Without one, look into orchestrator.tasks first.
    """


class OperationRefused(OrchestratorError):
    """The database refused to show or to change the task."""

    def __init__(
        self, message: str | None = None, *, sqlstate: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(f"{message}. {hint}" if message and hint else message)
        self.sqlstate = sqlstate
        self.hint = hint


class TaskFailed(OrchestratorError):
    """The task became a dead letter."""

    def __init__(self, task_id: int, error_class: str, message: str, traceback: str) -> None:
        super().__init__(f"task {task_id} became a dead letter after {error_class}: {message}")
        self.task_id = task_id
        self.error_class = error_class
        self.message = message
        self.traceback = traceback


class TaskCancelled(OrchestratorError):
    """The task was cancelled."""

    def __init__(self, task_id: int, reason: str | None) -> None:
        super().__init__(f"task {task_id} was cancelled" + (f": {reason}" if reason else ""))
        self.task_id = task_id
        self.reason = reason


class TaskExpired(OrchestratorError):
    """There is no such task: it was deleted, removed by retention, or its transaction is not committed yet."""

    def __init__(self, task_id: int) -> None:
        super().__init__(
            f"there is no task {task_id}: it was deleted, removed by retention, or its transaction is not committed yet"
        )
        self.task_id = task_id


class LeaseLost(OrchestratorError):
    """The lease of this attempt is void; its outcome is dropped."""

    def __init__(self, task_id: int, reason: str) -> None:
        super().__init__(f"task {task_id} is no longer this attempt's: {reason}")
        self.task_id = task_id
        self.reason = reason


class ExecutorCrashed(OrchestratorError):
    """The process that ran the handler ended before the handler did. Only this attempt failed."""


class RegistryError(ConfigError):
    """A task type is declared twice, without a usable name, or for an executor that cannot run it."""


class HandlerSignal(Exception):
    """A handler raises it to end its attempt in another way than by returning or failing.

    The worker reads its fields when the attempt ends: "5m", a timedelta and seconds are the same there.
    """


class Retry(HandlerSignal):
    """This attempt failed. Try again after this long (without a delay: after the type's backoff)."""

    def __init__(
        self, after: timedelta | float | str | None = None, reason: str = "the handler asked for a retry"
    ) -> None:
        super().__init__(reason)
        self.after = after
        self.reason = reason


class Snooze(HandlerSignal):
    """Run again after this long. This attempt does not count."""

    def __init__(self, after: timedelta | float | str) -> None:
        super().__init__(f"snoozed for {after}")
        self.after = after


class Cancel(HandlerSignal):
    """The task is not wanted any more: it ends as cancelled."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(reason)
        self.reason = reason


class Discard(HandlerSignal):
    """Another attempt is useless: the task becomes a dead letter at once, however many attempts are left."""

    def __init__(self, reason: str = "discarded by its handler") -> None:
        super().__init__(reason)
        self.reason = reason
