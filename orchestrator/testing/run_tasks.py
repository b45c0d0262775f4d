"""Run the ready tasks now, on a real database. A worker's statements claim, run and finish each task, one after
another, in order. So retries, keys, dead letters and transactions are the real ones.

As with any worker, uncommitted tasks are not seen. There is no waiting: a retry that is due in a second is not run,
unless `until` includes it.
"""

import asyncio
import contextvars
import dataclasses
import os
import platform
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, assert_never
from uuid import UUID, uuid4

import psycopg

from orchestrator import claim, execute, finish
from orchestrator.app import Orchestrator
from orchestrator.config import Config
from orchestrator.errors import OrchestratorError, TaskFailed
from orchestrator.execute import Executors, Registry
from orchestrator.postgres import connect, statement
from orchestrator.postgres.reconnect import Reconnect
from orchestrator.postgres.session import Session
from orchestrator.schema import compatibility
from orchestrator.services.handler_services import Services
from orchestrator.task import duration
from orchestrator.task.claimed import Claimed
from orchestrator.task.duration import Duration
from orchestrator.task.outcome import (
    Cancelled,
    Completed,
    DeadLettered,
    End,
    Failed,
    Fault,
    Lost,
    Outcome,
    PutBack,
    Recorded,
    Released,
    Snoozed,
)  # fmt: skip
from orchestrator.testing.application import info_of
from orchestrator.testing.recorded_attempt import RecordedAttempt
from orchestrator.version import __version__

READY = statement.load(__file__, "run_tasks.sql", "ready")
REGISTER = statement.load(__file__, "run_tasks.sql", "register")
DEREGISTER = statement.load(__file__, "run_tasks.sql", "deregister")

LIMIT = 1000
UNKNOWN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """The number of attempts by their outcome."""

    completed: int = 0
    failed: int = 0  # and will be tried again
    dead_lettered: int = 0  # dead letters
    cancelled: int = 0
    snoozed: int = 0
    unknown: int = 0  # of a type that the application does not know: put back
    stale: int = 0  # another transaction changed or deleted the task meanwhile

    @property
    def total(self) -> int:
        """The number of all attempts."""
        return sum(dataclasses.astuple(self))


class Endless(OrchestratorError):
    """A drain had run as many attempts as it may, and more was ready; does a task enqueue or snooze itself?"""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit:,} attempts were run, and more is ready: does a task enqueue or snooze itself for ever? "
            "If not, give run_tasks() a higher limit="
        )


def run_tasks(
    app: Orchestrator,
    *,
    queues: Iterable[str] | None = None,
    until: datetime | Duration | None = None,
    raising: bool = True,
    limit: int = LIMIT,
) -> TaskCounts:
    """Run all ready tasks, and those that become ready by this. Return the counts of outcomes.

    With `until`, a moment or a span from now ("1h", or seconds), it also runs tasks that are due by then. After a
    failed attempt is written, it raises the handler's exception; with raising=False the failure is only counted. Beyond
    `limit` attempts it raises, since a task may enqueue itself.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(arun_tasks(app, queues=queues, until=until, raising=raising, limit=limit))
    raise RuntimeError("an event loop runs in this thread; use: await arun_tasks(app)")


async def arun_tasks(
    app: Orchestrator,
    *,
    queues: Iterable[str] | None = None,
    until: datetime | Duration | None = None,
    raising: bool = True,
    limit: int = LIMIT,
) -> TaskCounts:
    """The same on the event loop, which the handlers run on."""
    given = Given.of(queues, until)
    async with running(app) as runner:
        counts = dict.fromkeys((field.name for field in dataclasses.fields(TaskCounts)), 0)
        # Ends: nothing is ready, or the limit is reached.
        while (task := await runner.next(given)) is not None:
            if sum(counts.values()) >= limit:
                await runner.finish(Outcome(task))
                raise Endless(limit)
            end, error = await runner.run(task)
            counts[end] += 1
            if error is not None and raising:
                raise error
        return TaskCounts(**counts)


@dataclass(frozen=True, slots=True)
class Given:
    """What to run, as the statement takes it."""

    queues: list[str] | None
    until: datetime | None
    ahead: timedelta | None

    @classmethod
    def of(cls, queues: Iterable[str] | None, until: datetime | Duration | None) -> "Given":
        """Read what a caller names."""
        if isinstance(queues, str):
            raise TypeError(f"queues are names in a list: queues=[{queues!r}]")
        names = None if queues is None else list(queues)
        if isinstance(until, datetime):
            if until.utcoffset() is None:
                raise ValueError("until has no time zone; give it one, for example datetime.now(UTC)")
            return cls(names, until, None)
        ahead = None if until is None else timedelta(seconds=duration.seconds("until", until))
        return cls(names, None, ahead)


class TaskRunner:
    """A worker with one slot and no process of its own. It claims only when the test asks for a task."""

    def __init__(self, config: Config, registry: Registry, session: Session, services: Services) -> None:
        self.worker_id = uuid4()
        self._registry = registry
        self._session = session
        self._services = services
        self._executors = Executors(registry, size=1, result_bytes_max=config.result_bytes_max)

    async def next(self, given: Given) -> Claimed | None:
        """Claim the task that comes first, if one is ready."""
        return await self._session.run(partial(self._next, given=given), give_up_on=always)

    async def _next(self, connection: psycopg.AsyncConnection[Any], given: Given) -> Claimed | None:
        ready = await connection.execute(READY, dataclasses.asdict(given))
        queues = [queue for (queue,) in await ready.fetchall()]
        answer = await claim.batch(
            connection, lease=claim.new_lease(), worker_id=self.worker_id, queues=queues, batch_size=1
        )
        return next(iter(await answer.tasks()), None)

    async def run(self, task: Claimed) -> tuple[str, BaseException | None]:
        """Run a task's handler and write down how that ended; say how, and what it raised."""
        handler = self._registry.find(task.type)
        if handler is None:
            reason = f"the application has no handler for type {task.type}"
            end: End = PutBack(Fault("UnknownType", reason), UNKNOWN_SECONDS, (task.put_back or 0) + 1)
            return await self.finish(Outcome(task, end)), None
        now = time.monotonic()
        attempt = RecordedAttempt(
            task,
            taken_at=now,
            begun_at=now,
            handler=handler,
            executors=self._executors,
            services=self._services,
        )
        end = await attempt.ended()
        return await self.finish(attempt), attempt.raised or error_of(task, end)

    async def finish(self, outcome: Outcome) -> str:
        """Write an end down; return what it counts as."""
        if not isinstance(outcome.end, Recorded):
            work = partial(finish.record, outcomes=[outcome], worker_id=self.worker_id)
            if (await self._session.run(work, give_up_on=always)).refused:
                return "stale"
        finish.announce([outcome], worker_id=self.worker_id)
        return name_of(outcome.end)

    def stop(self) -> None:
        """End the threads and the processes that handlers ran in."""
        self._executors.stop()


@asynccontextmanager
async def running(app: Orchestrator) -> AsyncIterator[TaskRunner]:
    """Be a worker of the application's database for the block."""
    info, reach = info_of(app), Reconnect()
    session = Session(info, purpose="testing", reach=reach)
    services = Services(app.config, info=lambda _purpose: info, reach=reach)
    runner = TaskRunner(app.config, app.registry, session, services)
    await asyncio.to_thread(register, info, app.registry, runner.worker_id)
    # In a context of its own, and of no handler's.
    serving = asyncio.create_task(services.run(), context=contextvars.copy_context())
    await asyncio.sleep(0)
    try:
        yield runner
    finally:
        serving.cancel()
        runner.stop()
        await services.close()
        await session.close()
        await asyncio.to_thread(deregister, info, runner.worker_id)


def register(info: str, registry: Registry, worker_id: UUID) -> None:
    """Write the types, as a worker does that starts, and the row."""
    row = {"id": worker_id, "host": platform.node(), "pid": os.getpid(), "version": __version__}
    with connect.open_sync(info) as connection:
        compatibility.require(connection)
        execute.declare(connection, registry)
        connection.execute(REGISTER, row)


def deregister(info: str, worker_id: UUID) -> None:
    with connect.open_sync(info) as connection:
        connection.execute(DEREGISTER, {"id": worker_id})


def always(_error: Exception) -> bool:
    """Give up on every error: a test must see a broken connection."""
    return True


def name_of(end: End) -> str:
    """Return the count that an end belongs to."""
    match end:
        case Completed() | Recorded():
            return "completed"
        case Failed():
            return "failed"
        case DeadLettered():
            return "dead_lettered"
        case Cancelled():
            return "cancelled"
        case Snoozed() | Released():
            return "snoozed"
        case PutBack():
            return "unknown"
        case Lost():
            raise AssertionError("only a worker loses a lease")
        case _:
            assert_never(end)


def error_of(task: Claimed, end: End) -> TaskFailed | None:
    """Return the error for an attempt that failed without an exception of its handler: after its timeout, or because
    its payload does not fit. Retry and Discard are decisions of the handler, not errors."""
    if isinstance(end, Failed | DeadLettered) and end.fault.class_name not in ("Retry", "Discard"):
        return TaskFailed(task.id, end.fault.class_name, end.fault.message, end.fault.traceback)
    return None
