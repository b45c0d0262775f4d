"""Run handlers at once, in the test's process, without a database: for tests of what an application does, not of when.

The payload is checked and written as JSON as always, and the handler gets the arguments read from that JSON. It runs
inside the call of `enqueue`, also with a run_at or a delay, and also on the caller's transaction, before that commits.
A task that a handler enqueues runs after that handler has returned, as with a worker. Nothing runs twice: a failure is
raised where the task was enqueued; after Retry or Snooze the task waits for ever.

To test commits, retries, keys that expire or the order of priorities, use `run_tasks` on a real database.
"""

import asyncio
import dataclasses
import itertools
import json
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn, TypeVar
from unittest import mock

from orchestrator import observe
from orchestrator.app import Orchestrator
from orchestrator.enqueue import Enqueued, Request
from orchestrator.errors import OperationRefused, OrchestratorError
from orchestrator.execute import Context, Executors, Handler, Registry
from orchestrator.execute.context import Logger
from orchestrator.operate import TaskState
from orchestrator.task import payload
from orchestrator.task.claimed import Claimed, unknown
from orchestrator.task.outcome import Cancelled, Completed, DeadLettered, End, Failed
from orchestrator.task.status import FINISHED
from orchestrator.testing.application import producer_of
from orchestrator.testing.recorded_attempt import RecordedAttempt

# The limit for a task that enqueues itself.
RUNS_MAX = 1000

T = TypeVar("T")
Waiting = deque[Claimed]
# The tasks that the handlers of one enqueue have enqueued. They run after these handlers.
BACKLOG: ContextVar[Waiting | None] = ContextVar("orchestrator_testing_backlog", default=None)


@contextmanager
def inline(app: Orchestrator, *, raising: bool = True) -> Iterator[None]:
    """Run at once the tasks that this application enqueues in the block. Their handles return the results.

    `enqueue` raises a handler's error. With raising=False the handle raises it, as after a last attempt.
    """
    runner = Inline(app, raising=raising)
    names = [
        "send",
        "asend",
        "send_many",
        "asend_many",
        "look",
        "alook",
        "cancel",
        "acancel",
        "pause",
        "apause",
    ]
    with mock.patch.multiple(producer_of(app), **{name: getattr(runner, name) for name in names}):
        yield


class Inline:
    """Replaces the producer of an application."""

    def __init__(self, app: Orchestrator, *, raising: bool) -> None:
        self._registry = app.registry
        self._config = producer_of(app)
        self._raising = raising
        self._ids = itertools.count(1)
        self._keys: dict[tuple[str, str], int] = {}
        self._states: dict[int, TaskState] = {}

    def send(self, request: Request, _held: object) -> Enqueued:
        """Run one task."""
        return self.send_many([request], None)[0]

    async def asend(self, request: Request, _held: object) -> Enqueued:
        """The same on the event loop."""
        return (await self.asend_many([request], None))[0]

    def send_many(self, requests: Iterable[Request], _held: object) -> list[Enqueued]:
        """Run a set of tasks in order."""
        taken, backlog = self._taken(requests)
        with upcoming(backlog) as tasks:
            for task in tasks:
                if (handler := self._registry.find(task.type)) is not None:
                    end = here(self._attempt(task, in_place(handler)), on_loop=handler.is_async)
                    self._ended(task, *end)
        return taken

    async def asend_many(self, requests: Iterable[Request], _held: object) -> list[Enqueued]:
        """The same on the event loop."""
        taken, backlog = self._taken(requests)
        with upcoming(backlog) as tasks:
            for task in tasks:
                if (handler := self._registry.find(task.type)) is not None:
                    self._ended(task, *await self._attempt(task, in_thread(handler)))
        return taken

    def look(self, task_id: int, _within_seconds: float | None = None) -> TaskState | None:
        """Return a task's current state."""
        return self._states.get(task_id)

    async def alook(self, task_id: int, _within_seconds: float | None = None) -> TaskState | None:
        """The same on the event loop."""
        return self._states.get(task_id)

    def cancel(self, task_id: int, reason: str | None) -> None:
        """Cancel a task that waits."""
        state = self._states[task_id]
        if state.status in FINISHED:
            raise OperationRefused(f"task {task_id} has finished")
        self._states[task_id] = dataclasses.replace(state, status="cancelled", cancelled_because=reason)

    async def acancel(self, task_id: int, reason: str | None) -> None:
        """The same on the event loop."""
        self.cancel(task_id, reason)

    def pause(self, _seconds: float) -> NoReturn:
        """Raise: the task will never finish, so a wait would never end."""
        raise OrchestratorError(
            "this task has not finished, and inline nothing runs later: it asked for Retry or Snooze, its handler "
            "is in another program, or it waits for the handler that asks; use testing.run_tasks, on a real database"
        )

    async def apause(self, seconds: float) -> NoReturn:
        """The same on the event loop."""
        self.pause(seconds)

    def _taken(self, requests: Iterable[Request]) -> tuple[list[Enqueued], Waiting]:
        """Give the tasks their ids, and return those to run now. Inside a handler these are none."""
        # All requests are read first: a set is refused as a whole.
        tasks = [self._task(request) for request in list(requests)]
        fresh = [task for task, created in tasks if created]
        taken = [Enqueued(task.id, created) for task, created in tasks]
        outer = BACKLOG.get()
        if outer is not None:
            outer.extend(fresh)
            fresh = []
        return taken, deque(fresh)

    def _task(self, request: Request) -> tuple[Claimed, bool]:
        envelope, body = request
        options = json.loads(envelope.alike)
        key = json.loads(f"{{{envelope.key[2:]}}}").get("key")
        handler = self._registry.find(options["type"])
        queue = options.get("queue") or (handler.queue if handler else "default")
        task = unknown(id=next(self._ids), lease=0, queue=queue, type=options["type"], attempt=1)
        if key is not None and (holder := self._keys.setdefault((task.type, key), task.id)) != task.id:
            return task._replace(id=holder), False
        task = task._replace(
            payload=body, tags=options.get("tags"), max_attempts=options.get("max_attempts") or 4,
            metadata=json.dumps(options["metadata"]) if "metadata" in options else None,
        )  # fmt: skip
        self._states[task.id] = state_of(task, "pending")
        return task, True

    async def _attempt(self, task: Claimed, handler: Handler) -> tuple[End, BaseException | None]:
        size = self._config.config.result_bytes_max
        executors = Executors(Registry(), size=1, result_bytes_max=size)
        attempt = RecordedAttempt(task, handler=handler, executors=executors, services=Bystander(size))
        end = await attempt.run()
        return end, attempt.raised

    def _ended(self, task: Claimed, end: End, error: BaseException | None) -> None:
        match end:
            case Completed(result):
                value = None if result is None else payload.decode_any(result, root="result")
                self._states[task.id] = state_of(task, "completed", result=value)
            case Failed(fault) | DeadLettered(fault):
                # Nothing runs twice, so a failure is the last; Retry is no failure.
                retries = error is None and isinstance(end, Failed)
                self._states[task.id] = state_of(task, "scheduled" if retries else "dead_letter", error=fault)
            case Cancelled(reason):
                self._states[task.id] = state_of(task, "cancelled", cancelled_because=reason)
            case _:
                self._states[task.id] = state_of(task, "scheduled")
        if error is not None and self._raising:
            raise error


class Bystander:
    """The parts of a handler's context that work without a database."""

    def __init__(self, result_bytes_max: int) -> None:
        self.result_bytes_max = result_bytes_max

    def transaction(self, context: Context) -> NoReturn:
        """Refuse."""
        raise OrchestratorError(
            f"{context.type}: context.transaction() needs a database, and inline there is none; use testing.run_tasks"
        )

    def report(self, task: Claimed, progress: str) -> None:
        """Let it pass."""

    async def reported(self, task: Claimed) -> None:
        """Return: progress has no reader here."""

    def logger(self, task: Claimed) -> Logger:
        """Return a logger that names the task."""
        bound: Logger = observe.logger(
            task_id=task.id, type=task.type, queue=task.queue, attempt=task.attempt
        )
        return bound


@contextmanager
def upcoming(backlog: Waiting) -> Iterator[Iterator[Claimed]]:
    """Yield the tasks to run, and then those that they have enqueued."""
    token = BACKLOG.set(backlog)
    try:
        yield taken_from(backlog)
    finally:
        BACKLOG.reset(token)


def taken_from(backlog: Waiting) -> Iterator[Claimed]:
    for _ in range(RUNS_MAX):
        if not backlog:
            return
        yield backlog.popleft()
    if backlog:
        raise OrchestratorError(f"{RUNS_MAX:,} tasks have run inline; does one enqueue itself for ever?")


def in_place(handler: Handler) -> Handler:
    """Call a `def` where its task is enqueued, in that thread and its transaction."""
    return handler if handler.is_async else as_coroutine(handler, immediately)


def in_thread(handler: Handler) -> Handler:
    """Call a `def` in a thread, beside the loop."""
    return handler if handler.is_async else as_coroutine(handler, asyncio.to_thread)


def as_coroutine(handler: Handler, call: Callable[..., Coroutine[Any, Any, Any]]) -> Handler:
    return dataclasses.replace(
        handler, function=partial(call, handler.function), is_async=True, executor="async"
    )


async def immediately(function: Callable[..., T], **arguments: Any) -> T:
    return function(**arguments)


def here(work: Coroutine[Any, Any, T], *, on_loop: bool) -> T:
    """Run a coroutine to its end in code that cannot await it. A coroutine that never waits runs without a loop, so
    that a `def` finds no running loop. If a loop runs in this thread, the coroutine runs in another thread."""
    if not on_loop:
        try:
            work.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        raise AssertionError("a def handler waits for nothing")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    answers: list[T] = []
    context = copy_context()
    thread = threading.Thread(target=lambda: answers.append(context.run(asyncio.run, work)))
    thread.start()
    thread.join()
    return answers[0]


def state_of(task: Claimed, status: str, **more: Any) -> TaskState:
    now = datetime.now(UTC)
    given = dict[str, Any](result=None, error=None, cancelled_because=None) | more
    return TaskState(
        status=status, type=task.type, queue=task.queue, attempt=task.attempt, max_attempts=task.max_attempts,
        progress=None, created_at=now, run_at=now, started_at=now, finished_at=now if status in FINISHED else None,
        **given,
    )  # fmt: skip
