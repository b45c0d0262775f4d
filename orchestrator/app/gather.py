"""Send with one statement what the coroutines of one loop enqueue at the same time.

Each `aenqueue` on the application's own pool is a transaction of its own. While one is on its way, further requests
wait here; then all of them go with one statement and share its COMMIT. There is no timer: a request that finds none on
its way is sent at once.

For each caller it is as if its request had been sent alone. A set is committed or refused as a whole: if the database
refuses it, nothing of it is there, and each of its requests is sent alone. A request with a key always is: it may have
to wait for the transaction that holds the key, and the others would wait with it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg

from orchestrator import enqueue
from orchestrator.enqueue import Enqueued, Request
from orchestrator.errors import EnqueueInDoubt, OrchestratorError
from orchestrator.postgres.pools import Pools

Waiting = tuple[Request, asyncio.Future[Enqueued]]


class Gathering:
    """The requests of one event loop."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._is_sending = False
        self._waiting: deque[Waiting] = deque()
        self._senders: set[asyncio.Task[None]] = set()  # the loop itself holds no strong reference

    async def send(self, request: Request) -> Enqueued:
        """Enqueue one task, committed when this returns."""
        if request[0].key:
            return await self._send_alone(request)
        if self._is_sending:
            answer: asyncio.Future[Enqueued] = asyncio.get_running_loop().create_future()
            self._waiting.append((request, answer))
            return await answer
        self._is_sending = True
        try:
            async with self._connection() as connection:
                return await enqueue.asend(enqueue.AsyncPsycopg(connection, is_ours=True), request)
        finally:
            self._send_next()

    def _send_next(self) -> None:
        """Send what has come meanwhile. In a task of its own: no caller may end it by its own cancellation."""
        while self._waiting and self._waiting[0][1].done():
            self._waiting.popleft()
        self._is_sending = bool(self._waiting)
        if self._is_sending:
            sender = asyncio.get_running_loop().create_task(self._send_waiting())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)

    async def _send_waiting(self) -> None:
        taken: list[Waiting] = []
        try:
            async with self._connection() as connection:
                taken = self._take()
                target = enqueue.AsyncPsycopg(connection, is_ours=True)
                many = await enqueue.asend_many(target, [request for request, _ in taken])
            for n, (_, answer) in enumerate(taken):
                if not answer.done():
                    answer.set_result(many[n])
        except OrchestratorError as error:
            if isinstance(error, EnqueueInDoubt):
                give_up(taken, error)
            else:
                await asyncio.gather(*(self._answer_alone(*each) for each in taken))
        except Exception as error:
            give_up(taken, error)
        finally:
            # Those that have no answer yet get none: the loop ends.
            give_up(taken, asyncio.CancelledError())
            self._send_next()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Borrow a connection. If there is none within the pool's time, none of those that wait gets one: each would
        wait as long again."""
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._pools.aconnection())
            except Exception as error:
                give_up(self._take(), error)
                raise
            yield connection

    def _take(self) -> list[Waiting]:
        """Take all that wait, without those whose callers have given up."""
        taken = [each for each in self._waiting if not each[1].done()]
        self._waiting.clear()
        return taken

    async def _send_alone(self, request: Request) -> Enqueued:
        async with self._pools.aconnection() as connection:
            return await enqueue.asend(enqueue.AsyncPsycopg(connection, is_ours=True), request)

    async def _answer_alone(self, request: Request, answer: asyncio.Future[Enqueued]) -> None:
        try:
            sent = await self._send_alone(request)
        except Exception as error:
            give_up([(request, answer)], error)
        else:
            if not answer.done():
                answer.set_result(sent)


def give_up(those: Iterable[Waiting], error: BaseException) -> None:
    """Raise the error in those callers that still wait."""
    for _, answer in those:
        if not answer.done():
            if isinstance(error, Exception):
                answer.set_exception(error)
            else:  # the loop ends
                answer.cancel()
