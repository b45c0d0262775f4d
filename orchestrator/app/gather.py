"""Send together what the coroutines of one loop enqueue at the same time.

Each `aenqueue` on the application's own pool is a transaction of its own. While one is on its way, further requests
wait here; then all of them go in one transaction and share its COMMIT. A request that finds none on its way is sent at
once. One that takes longer than SLOW_SECONDS, because its session or its COMMIT hangs, is waited for no longer: those
that wait go on another connection, unless SLOW_MAX such hang already.

For each caller it is as if its request had been sent alone. A set is committed or refused as a whole: if the database
refuses it, nothing was enqueued, and each of its requests is sent alone. A request with a key always is: it may have
to wait for the transaction that holds the key, and the others would wait with it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context
from functools import partial
from typing import Any

import psycopg

from orchestrator import enqueue
from orchestrator.enqueue import Enqueued, Request
from orchestrator.errors import EnqueueInDoubt, OrchestratorError
from orchestrator.postgres.pools import Pools

Waiting = tuple[Request, asyncio.Future[Enqueued]]

# Far above the time of the largest set.
SLOW_SECONDS = 2.0
SLOW_MAX = 3


class Gathering:
    """The requests of one event loop."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._waiting: deque[Waiting] = deque()
        # The one on its way, for which those that wait do so; its timer stands for it.
        self._awaited: asyncio.TimerHandle | None = None
        self._slow = 0  # how many others are on their way
        self._senders: set[asyncio.Task[None]] = set()  # the loop itself holds no strong reference

    async def send(self, request: Request) -> Enqueued:
        """Enqueue one task, committed when this returns."""
        if request[0].key:
            return await self._send_alone(request)
        if not self._may_send():
            answer: asyncio.Future[Enqueued] = asyncio.get_running_loop().create_future()
            self._waiting.append((request, answer))
            return await answer
        sending = self._begin()
        try:
            async with self._connection() as connection:
                return await enqueue.asend(enqueue.AsyncPsycopg(connection, is_ours=True), request)
        finally:
            self._end(sending)

    def _may_send(self) -> bool:
        return self._awaited is None and self._slow < SLOW_MAX

    def _begin(self) -> asyncio.TimerHandle:
        self._awaited = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._is_slow)
        return self._awaited

    def _is_slow(self) -> None:
        self._awaited, self._slow = None, self._slow + 1
        self._send_next()

    def _end(self, sending: asyncio.TimerHandle) -> None:
        if sending is self._awaited:
            sending.cancel()
            self._awaited = None
        else:
            self._slow -= 1
        self._send_next()

    def _send_next(self) -> None:
        """Send what has come meanwhile. In a task of its own: no caller may end it by its own cancellation."""
        while self._waiting and self._waiting[0][1].done():
            self._waiting.popleft()
        if not (self._waiting and self._may_send()):
            return
        # In no caller's context: the next sender would inherit it from this one.
        sender = Context().run(asyncio.get_running_loop().create_task, self._send_waiting())
        self._senders.add(sender)
        # A callback: a task that is cancelled before its first step runs no code of its own.
        sender.add_done_callback(partial(self._sent, self._begin()))

    def _sent(self, sending: asyncio.TimerHandle, sender: asyncio.Task[None]) -> None:
        self._senders.discard(sender)
        self._end(sending)

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
        except EnqueueInDoubt as error:
            give_up(taken, error)
        except OrchestratorError:
            await asyncio.gather(*(self._answer_alone(*each) for each in taken))
        except Exception as error:
            give_up(taken, error)
        finally:
            # The sender was cancelled. Those that have no answer yet may be enqueued.
            give_up(taken, EnqueueInDoubt())

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Borrow a connection. If the pool has none in time, those fail that have waited for as long. Those that came
        later get another try, which they share."""
        waited = list(self._waiting)
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._pools.aconnection())
            except Exception as error:
                # Another sender may have taken some of them meanwhile, and answers those.
                waiting = {answer for _, answer in self._waiting}
                give_up((each for each in waited if each[1] in waiting), error)
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
            async with self._pools.aconnection() as connection:
                if answer.done():  # its caller has given up
                    return
                sent = await enqueue.asend(enqueue.AsyncPsycopg(connection, is_ours=True), request)
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(sent)


def give_up(those: Iterable[Waiting], error: Exception) -> None:
    """Raise the error in those callers that still wait. Each gets a copy, without the traceback and the context of
    another caller."""
    for _, answer in those:
        if not answer.done():
            answer.set_exception(copied(error))


def copied(error: Exception) -> Exception:
    """Copy an exception without calling its class, whose parameters need not be what it keeps."""
    copy = type(error).__new__(type(error))
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    return copy
