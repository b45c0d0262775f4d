"""A handler's transaction that completes its own task: its writes and the completion commit together or roll back.

    begin ──► the handler's statements ──► complete, if the lease holds ──► COMMIT ──► answered: completed
                     │                              │                          │
                     │ it raises                    │ void: LeaseLost          └─► no answer: ask whether it committed
                     ▼                              ▼
                 ROLLBACK                        ROLLBACK

During the attempt it may roll back and begin again; it commits at most once (execute/completion.py). If the attempt
ends first, by its timeout or a lost lease, the transaction does not commit. The worker waits for a COMMIT already sent.

A COMMIT without an answer is in doubt until another connection has asked the database. If there is no answer in time,
the attempt fails, and the lease decides: the failure is written only if the COMMIT did not happen.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from orchestrator import events, finish
from orchestrator.errors import DatabaseUnavailable, LeaseLost, OperationRefused
from orchestrator.execute import Context
from orchestrator.postgres import connect, transient_errors
from orchestrator.postgres.session import Session
from orchestrator.postgres.transaction_pool import Async, Sync, TransactionPool
from orchestrator.task.outcome import Outcome, Recorded

# Longer than a completion takes, with its wait for a lock. The handler's own statements have no limit.
ANSWER_SECONDS = 15.0
# How long to ask whether a COMMIT happened. A restart or a failover takes less.
DOUBT_SECONDS = 30.0
CANCEL_SECONDS = 3.0

Kind = type[BaseException] | None


class Transaction:
    """One transaction of one attempt. `new_session` makes the session that asks about a COMMIT in doubt. `ended` is
    called on the loop, after the COMMIT, if the task held permits or fed gates."""

    def __init__(
        self,
        context: Context,
        lender: TransactionPool,
        *,
        new_session: Callable[[], Session],
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[finish.LeaseEnds], None],
    ) -> None:
        self._context = context
        self._task = context.task
        self._outcome = Outcome(context.task, Recorded(), context.begun_at)
        self._completion = context.completion
        self._pool = lender
        self._new_session = new_session
        self._loop = loop
        self._ended = ended
        self._ends: finish.LeaseEnds | None = None
        self._sync: Sync | None = None

    async def __aenter__(self) -> Async:
        if asyncio.get_running_loop() is not self._loop:
            raise TypeError(
                "this loop is not the worker's, so `async with context.transaction()` cannot be used on it; in a def "
                "handler write `with context.transaction() as connection:`"
            )
        self._completion.open()
        try:
            self._async = await self._pool.aborrow()
            try:
                self._abegun = psycopg.AsyncTransaction(self._async)
                await self._abegun.__aenter__()
            except BaseException:
                await self._pool.atake_back(self._async)
                raise
        except BaseException:
            self._completion.end(committed=False)
            raise
        return self._async

    async def __aexit__(self, kind: Kind, error: BaseException | None, trace: TracebackType | None) -> bool:
        # In its own asyncio task: a COMMIT cannot be interrupted safely, so a cancellation of the handler takes effect
        # before it or after it.
        ending = asyncio.ensure_future(self._end(error))
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.wait({ending})
            except asyncio.CancelledError as error_now:
                cancelled = error_now
                if not self._completion.is_committing:
                    ending.cancel()
        if cancelled is not None:
            if not ending.cancelled():
                ending.exception()
            raise cancelled
        return ending.result()

    def __enter__(self) -> Sync:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise TypeError(
                "`with context.transaction()` would block the loop; in an async def handler write "
                "`async with context.transaction() as connection:`"
            )
        self._completion.open(self._interrupt)
        try:
            connection = self._pool.borrow(lambda: not self._completion.is_over)
            if connection is None:
                raise self._completion.refusal()
            try:
                self._begun = psycopg.Transaction(connection)
                self._begun.__enter__()
            except BaseException:
                self._pool.take_back(connection)
                raise
        except BaseException:
            self._completion.end(committed=False)
            raise
        self._sync = connection
        return connection

    def __exit__(self, kind: Kind, error: BaseException | None, trace: TracebackType | None) -> bool:
        connection, committed = self._sync, False
        assert connection is not None  # nosec B101 # noqa: S101 - as __enter__ has returned
        try:
            if error is not None:
                return self._begun.__exit__(kind, error, trace)
            self._complete(connection)
            committed = self._commit()
            return False
        finally:
            self._settle(committed=committed)
            self._pool.take_back(connection)

    async def _end(self, error: BaseException | None) -> bool:
        """The async form of __exit__."""
        committed = False
        try:
            if error is not None:
                return await self._abegun.__aexit__(type(error), error, error.__traceback__)
            await self._acomplete()
            committed = await self._acommit()
            return False
        finally:
            self._settle(committed=committed)
            await self._pool.atake_back(self._async)

    # The completion is the transaction's last statement. If it is refused, the whole transaction is rolled back.

    def _complete(self, connection: Sync) -> None:
        try:
            self._require_open(connection)
            self._accept(finish.take(connection, self._steps()))
        except BaseException as refusal:
            self._begun.__exit__(type(refusal), refusal, refusal.__traceback__)
            self._raise_in_our_words(refusal)
            raise

    async def _acomplete(self) -> None:
        deadline = self._loop.call_later(ANSWER_SECONDS, connect.hang_up, self._async)
        try:
            self._require_open(self._async)
            self._accept(await finish.take_async(self._async, self._steps()))
        except BaseException as refusal:
            await self._abegun.__aexit__(type(refusal), refusal, refusal.__traceback__)
            self._raise_in_our_words(refusal)
            raise
        finally:
            deadline.cancel()

    def _steps(self) -> finish.Steps[finish.LeaseEnds | None]:
        return finish.complete_within(self._outcome, self._context.result_text)

    def _require_open(self, connection: Sync | Async) -> None:
        if connection.info.transaction_status == TransactionStatus.IDLE:
            raise RuntimeError(
                f"the transaction of task {self._task.id} was ended inside its block, without the task's completion; "
                "leave COMMIT and ROLLBACK to the block's end"
            )

    def _accept(self, ends: finish.LeaseEnds | None) -> None:
        if ends is None:
            raise LeaseLost(self._task.id, "its lease is void, so what its transaction wrote is undone")
        self._ends = ends
        self._completion.commit()

    def _raise_in_our_words(self, refusal: BaseException) -> None:
        if isinstance(refusal, errors.LockNotAvailable):
            raise OperationRefused(
                f"task {self._task.id} could not be completed: another transaction has its row locked, and did not "
                "end within 5 s; what its own transaction wrote is undone",
                sqlstate=refusal.sqlstate,
            ) from refusal

    # The commit: answered, refused, or in doubt.

    def _commit(self) -> bool:
        failure: psycopg.Error | None = None
        try:
            self._begun.__exit__(None, None, None)
        except psycopg.Error as error:
            failure = error
        if is_answered(self._begun, failure):
            return True
        # The worker's loop asks, and this thread waits.
        asking = asyncio.run_coroutine_threadsafe(self._ask(failure), self._loop)
        return self._found(asking.result(DOUBT_SECONDS + ANSWER_SECONDS), failure)

    async def _acommit(self) -> bool:
        failure: psycopg.Error | None = None
        deadline = self._loop.call_later(ANSWER_SECONDS, connect.hang_up, self._async)
        try:
            await self._abegun.__aexit__(None, None, None)
        except psycopg.Error as error:
            failure = error
        finally:
            deadline.cancel()
        if is_answered(self._abegun, failure):
            return True
        return self._found(await self._ask(failure), failure)

    async def _ask(self, failure: psycopg.Error | None) -> bool:
        """Ask on another connection whether the COMMIT happened, for up to DOUBT_SECONDS."""
        reason = transient_errors.reason(failure) if failure is not None else "the connection was closed"
        events.emit(events.ConnectionLost("transactions", reason))
        deadline = time.monotonic() + DOUBT_SECONDS
        session = self._new_session()
        try:
            return await session.run(self._was_committed, give_up_on=lambda _: time.monotonic() > deadline)
        except Exception as error:
            if not transient_errors.is_transient(error):
                raise
            raise DatabaseUnavailable(
                f"the connection broke while task {self._task.id} was being committed, and the database did not answer "
                f"for {DOUBT_SECONDS:g} s; the task runs again, unless the commit succeeded"
            ) from error
        finally:
            await session.close()

    async def _was_committed(self, connection: Async) -> bool:
        return await finish.take_async(connection, finish.was_committed(self._task))

    def _found(self, committed: bool, failure: psycopg.Error | None) -> bool:  # noqa: FBT001 - an answer
        if not committed:
            raise DatabaseUnavailable(
                f"the connection broke before task {self._task.id} was committed; what its transaction wrote is undone"
            ) from failure
        return True

    def _settle(self, *, committed: bool) -> None:
        self._completion.end(committed=committed)
        if committed and self._ends:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._ended, self._ends)

    def _interrupt(self) -> None:
        """The attempt has ended while the handler's thread still runs: cancel the statement that it waits for."""
        if self._sync is not None:
            threading.Thread(target=interrupt, args=[self._sync], daemon=True).start()


def is_answered(begun: psycopg.Transaction | psycopg.AsyncTransaction, failure: psycopg.Error | None) -> bool:
    """Tell whether the COMMIT was confirmed. False: unknown. If it was refused, raise the reason.

    An ERROR means that nothing was committed. A FATAL may come after the commit, from a server that shuts down.
    """
    if failure is None:
        # psycopg raises nothing either if the connection broke before it could send the COMMIT.
        return begun.status is begun.Status.COMMITTED
    if failure.diag.severity_nonlocalized == "ERROR":
        raise failure
    return False


def interrupt(connection: Sync) -> None:
    """Cancel the statement that a thread waits for. If the server does not answer, close the connection."""
    try:
        connection.cancel_safe(timeout=CANCEL_SECONDS)
    except psycopg.Error:
        connect.hang_up(connection)
