"""Send together what the coroutines of one loop enqueue at the same time.

Each `aenqueue` on the application's own pool is a transaction of its own. While one is on its way, further requests
wait here; then they go in one statement and share its COMMIT. A request that finds none on its way is sent at once.
When a send hangs, the waiting requests go on another connection after SLOW_SECONDS, as long as the pool has one.

For each caller it is as if its request had been sent alone. The database refuses a set as a whole, so nothing of it was
enqueued: the request that it names is then sent alone, on the same connection, and the others together. A request with
a key is always sent alone: it may have to wait for the transaction that holds the key, and the others would wait with
it. When all callers of a set have given up, its send is cancelled.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial

from orchestrator import enqueue
from orchestrator.enqueue import Enqueued, Request
from orchestrator.errors import DatabaseUnavailable, EnqueueInDoubt, EnqueueRefused
from orchestrator.postgres.pools import Pools

Answer = asyncio.Future[Enqueued]
Asked = tuple[Request, Answer]

# The largest set takes some 20 ms.
SLOW_SECONDS = 2.0
# A set goes in one statement, without BEGIN and COMMIT, if it is smaller than a chunk of `enqueue_many`.
SET_MAX = 999
SET_BYTES = 1_000_000


@dataclass(eq=False, slots=True)
class Sending:
    """A send on its way. A caller that found none sends its own request: then no others are in it."""

    asked: list[Asked] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None


class Gathering:
    """The requests of one event loop."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        # In the order of the calls, each with its number.
        self._waiting: OrderedDict[Answer, tuple[int, Request]] = OrderedDict()
        self._calls = 0
        # The send that the waiting requests wait for.
        self._awaited: Sending | None = None
        self._senders: set[asyncio.Task[None]] = set()  # the loop itself holds no strong reference

    async def send(self, request: Request) -> Enqueued:
        """Enqueue one task, committed when this returns."""
        if request[0].key:
            async with self._pools.aconnection() as connection:
                return await enqueue.asend(enqueue.AsyncPsycopg(connection, is_ours=True), request)
        if self._awaited is not None:
            return await self._answer(request)
        sending = self._awaited = Sending()
        try:
            async with self._connection(sending) as target:
                return await enqueue.asend(target, request)
        finally:
            self._end(sending)

    async def _answer(self, request: Request) -> Enqueued:
        """Wait until the request was sent with others."""
        answer: Answer = asyncio.get_running_loop().create_future()
        self._calls += 1
        self._waiting[answer] = self._calls, request
        try:
            return await answer
        finally:
            self._waiting.pop(answer, None)

    def _end(self, sending: Sending) -> None:
        if sending.timer is not None:
            sending.timer.cancel()
        if sending is self._awaited:
            self._awaited = None
            self._send_next()

    def _leave_behind(self, sending: Sending) -> None:
        """Send the waiting requests on another connection. Cancel this send if all its callers have given up."""
        if sending is self._awaited:
            self._awaited = None
            self._send_next()
        if sending.task is None:
            return
        if all(answer.done() for _, answer in sending.asked):
            sending.task.cancel()
        else:
            self._watch(sending)

    def _watch(self, sending: Sending) -> None:
        sending.timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._leave_behind, sending)

    def _send_next(self) -> None:
        """Send what has come meanwhile. In a task of its own: no caller may end it by its own cancellation."""
        if not self._waiting:
            return
        sending = self._awaited = Sending()
        # Any caller may start it, so it has an empty context, not that caller's. The loop's task factory may not know
        # contexts, and may fail without that of a caller.
        sending.task = asyncio.Task(
            self._send_waiting(sending), loop=asyncio.get_running_loop(), context=Context()
        )
        self._senders.add(sending.task)
        # A callback: a task that is cancelled before its first step runs no code of its own.
        sending.task.add_done_callback(partial(self._sent, sending))

    def _sent(self, sending: Sending, sender: asyncio.Task[None]) -> None:
        self._senders.discard(sender)
        self._end(sending)

    async def _send_waiting(self, sending: Sending) -> None:
        try:
            async with self._connection(sending) as target:
                self._take(sending)
                await send_set(target, sending.asked)
        except Exception as error:
            give_up(sending.asked, error)
        finally:
            # The send was cancelled. Those that have no answer yet may be enqueued.
            give_up(sending.asked, EnqueueInDoubt())

    @asynccontextmanager
    async def _connection(self, sending: Sending) -> AsyncIterator[enqueue.AsyncPsycopg]:
        """Borrow a connection. If the pool has none in time, those fail that have waited for as long. Those that came
        later get another try, which they share."""
        calls = self._calls
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._pools.aconnection())
            except Exception as error:
                waited = [(each[1], answer) for answer, each in self._waiting.items() if each[0] <= calls]
                give_up(waited, error)
                raise
            self._watch(sending)
            yield enqueue.AsyncPsycopg(connection, is_ours=True)

    def _take(self, sending: Sending) -> None:
        """Take the first of those that wait."""
        size = 0
        while self._waiting and len(sending.asked) < SET_MAX and size < SET_BYTES:
            answer, (_, request) = self._waiting.popitem(last=False)
            if not answer.done():
                sending.asked.append((request, answer))
                size += len(request[0].alike) + len(request[1])


async def send_set(target: enqueue.AsyncPsycopg, asked: list[Asked]) -> None:
    """Send a set. When it is refused, send the request that was meant alone, those before it together, and those behind
    it, of which nothing is known, in two halves: with many wrong requests, each is still sent only a few times. If none
    is named, send each alone."""
    sets = [asked]
    while sets:
        # Without those whose callers have given up.
        some = [each for each in sets.pop() if not each[1].done()]
        try:
            if len(some) == 1:
                sent = [await enqueue.asend(target, some[0][0])]
            else:
                sent = list(await enqueue.asend_many(target, [request for request, _ in some]))
        except EnqueueRefused as error:
            if len(some) == 1:
                give_up(some, error)
            elif (n := error.item) is not None and n < len(some):
                half = (n + 1 + len(some)) // 2
                sets += some[half:], some[n + 1 : half], some[n : n + 1], some[:n]
            else:
                sets += [[each] for each in reversed(some)]
        except EnqueueInDoubt as error:
            give_up(some, error)
            # For the rest of a refused set.
            raise DatabaseUnavailable("the connection broke: nothing was enqueued; try again") from error
        else:
            for (_, answer), made in zip(some, sent, strict=True):
                if not answer.done():
                    answer.set_result(made)


def give_up(asked: Iterable[Asked], error: Exception) -> None:
    """Raise the error in those callers that still wait. Each gets a copy, without the traceback and the context of
    another caller."""
    for _, answer in asked:
        if not answer.done():
            answer.set_exception(copied(error))


def copied(error: Exception) -> Exception:
    """Copy an exception without calling its __init__, whose parameters need not be what it keeps."""
    try:
        copy = type(error).__new__(type(error), *error.args)
    except Exception:  # whatever its class makes of that
        return error
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    return copy
