"""Send requests: on what the caller holds, in its transaction, or on a connection of our own, committed at once."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property

from orchestrator import enqueue
from orchestrator.config import Config
from orchestrator.enqueue import AsyncTarget, Enqueued, Many, Request, Target
from orchestrator.postgres.pools import Pools


class Producer:
    """The enqueueing side of one application. Connects to nothing before it must."""

    def __init__(self, read_config: Callable[[], Config]) -> None:
        self._read_config = read_config

    @cached_property
    def config(self) -> Config:
        """The settings, read when first needed: a module that declares tasks imports without a database."""
        return self._read_config()

    @cached_property
    def pools(self) -> Pools:
        """The connections used where none is handed in."""
        return Pools(self.config)

    def send(self, request: Request, held: object) -> Enqueued:
        """Enqueue one task."""
        if held is not None:
            return enqueue.send(enqueue.synchronous(held), request)
        with self._target(None) as target:
            return enqueue.send(target, request)

    async def asend(self, request: Request, held: object) -> Enqueued:
        """The same on the event loop."""
        async with self._atarget(held) as target:
            return await enqueue.asend(target, request)

    def send_many(self, requests: Iterable[Request], held: object) -> Many:
        """Enqueue a set, all or nothing."""
        with self._target(held) as target:
            return enqueue.send_many(target, requests)

    async def asend_many(self, requests: Iterable[Request], held: object) -> Many:
        """The same on the event loop."""
        async with self._atarget(held) as target:
            return await enqueue.asend_many(target, requests)

    def close(self) -> None:
        """Close the connections opened for threads, if any were."""
        if "pools" in self.__dict__:
            self.pools.close()

    async def aclose(self) -> None:
        """Close the connections opened on this loop, if any were."""
        if "pools" in self.__dict__:
            await self.pools.aclose()

    @contextmanager
    def _target(self, held: object) -> Iterator[Target]:
        if held is None:
            with self.pools.connection() as connection:
                yield enqueue.synchronous(connection)
        else:
            yield enqueue.synchronous(held)

    @asynccontextmanager
    async def _atarget(self, held: object) -> AsyncIterator[AsyncTarget]:
        if held is None:
            async with self.pools.aconnection() as connection:
                yield enqueue.asynchronous(connection)
        else:
            yield enqueue.asynchronous(held)
