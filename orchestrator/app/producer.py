"""Send requests, and read what became of them. A request goes on the caller's connection, in the caller's transaction,
or on a pooled connection, committed at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property

from orchestrator import enqueue, observe, operate
from orchestrator.app.gather import Gathering
from orchestrator.config import Config
from orchestrator.enqueue import AsyncTarget, Enqueued, Many, Marker, Request, Target, Tracing
from orchestrator.operate import TaskState
from orchestrator.postgres.pools import Pools


class Producer:
    """The enqueueing side of one application. It connects on first use."""

    def __init__(self, read_config: Callable[[], Config]) -> None:
        self._read_config = read_config
        self._gatherings: dict[asyncio.AbstractEventLoop, Gathering] = {}

    @cached_property
    def config(self) -> Config:
        """The settings, read on first use: a module that declares tasks can be imported without a database."""
        return self._read_config()

    @cached_property
    def pools(self) -> Pools:
        """The connections for calls that bring none."""
        return Pools(self.config)

    def send(self, request: Request, held: object) -> Enqueued:
        """Enqueue one task."""
        spans: Tracing | None = observe.tracing()
        if spans is None:
            return self._send(request, held)
        with spans.send(*enqueue.destination(request[0])) as span:
            enqueued = self._send(Marker(span.carrier).mark(request), held)
            span.sent(enqueued.id)
        return enqueued

    async def asend(self, request: Request, held: object) -> Enqueued:
        """The same on the event loop."""
        spans: Tracing | None = observe.tracing()
        if spans is None:
            return await self._asend(request, held)
        with spans.send(*enqueue.destination(request[0])) as span:
            enqueued = await self._asend(Marker(span.carrier).mark(request), held)
            span.sent(enqueued.id)
        return enqueued

    def send_many(self, requests: Iterable[Request], held: object) -> Many:
        """Enqueue a set, all or nothing."""
        spans: Tracing | None = observe.tracing()
        if spans is None:
            return self._send_many(requests, held)
        with spans.send() as span:
            marker = Marker(span.carrier)
            many = self._send_many(map(marker.mark, requests), held)
            span.sent_many(len(many), marker.queue)
        return many

    async def asend_many(self, requests: Iterable[Request], held: object) -> Many:
        """The same on the event loop."""
        spans: Tracing | None = observe.tracing()
        if spans is None:
            return await self._asend_many(requests, held)
        with spans.send() as span:
            marker = Marker(span.carrier)
            many = await self._asend_many(map(marker.mark, requests), held)
            span.sent_many(len(many), marker.queue)
        return many

    def look(self, task_id: int, within_seconds: float | None = None) -> TaskState | None:
        """Return a task's current state; None if there is no such task. Waits at most `within_seconds` for a
        connection."""
        with self.pools.connection(within_seconds) as connection:
            return operate.current(connection, task_id)

    async def alook(self, task_id: int, within_seconds: float | None = None) -> TaskState | None:
        """The same on the event loop."""
        async with self.pools.aconnection(within_seconds) as connection:
            return await operate.acurrent(connection, task_id)

    def cancel(self, task_id: int, reason: str | None) -> None:
        """Cancel a task."""
        with self.pools.connection() as connection:
            operate.cancel(connection, task_id, reason=reason)

    async def acancel(self, task_id: int, reason: str | None) -> None:
        """The same on the event loop."""
        async with self.pools.aconnection() as connection:
            await operate.acancel(connection, task_id, reason=reason)

    def pause(self, seconds: float) -> None:
        """Sleep before the next look."""
        time.sleep(seconds)

    async def apause(self, seconds: float) -> None:
        """The same on the event loop."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Close the connections opened for threads, if any were."""
        if "pools" in self.__dict__:
            self.pools.close()

    async def aclose(self) -> None:
        """Close the connections opened on this loop, if any were."""
        if "pools" in self.__dict__:
            await self.pools.aclose()

    def _send(self, request: Request, held: object) -> Enqueued:
        if held is not None:
            return enqueue.send(enqueue.synchronous(held), request)
        with self.target(None) as target:
            return enqueue.send(target, request)

    async def _asend(self, request: Request, held: object) -> Enqueued:
        if held is not None:
            return await enqueue.asend(enqueue.asynchronous(held), request)
        loop = asyncio.get_running_loop()
        gathering = self._gatherings.get(loop)
        if gathering is None:
            # list() copies in one step: another thread may add its own loop.
            for ended in [other for other in list(self._gatherings) if other.is_closed()]:
                self._gatherings.pop(ended, None)
            gathering = self._gatherings[loop] = Gathering(self.pools)
        return await gathering.send(request)

    def _send_many(self, requests: Iterable[Request], held: object) -> Many:
        with self.target(held) as target:
            return enqueue.send_many(target, requests)

    async def _asend_many(self, requests: Iterable[Request], held: object) -> Many:
        async with self.atarget(held) as target:
            return await enqueue.asend_many(target, requests)

    @contextmanager
    def target(self, held: object) -> Iterator[Target]:
        """Yield the caller's connection, or else a pooled one."""
        if held is None:
            with self.pools.connection() as connection:
                yield enqueue.Psycopg(connection, is_ours=True)
        else:
            yield enqueue.synchronous(held)

    @asynccontextmanager
    async def atarget(self, held: object) -> AsyncIterator[AsyncTarget]:
        """The same on the event loop."""
        if held is None:
            async with self.pools.aconnection() as connection:
                yield enqueue.AsyncPsycopg(connection, is_ours=True)
        else:
            yield enqueue.asynchronous(held)
