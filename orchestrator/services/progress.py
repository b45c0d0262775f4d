"""Write the progress of handlers in the background: all values of a worker in one statement, once a second.

    reported ──► waiting ──► sending ──► written
                    └────────────┘ a lock, or a broken connection: tried again, unless there is a newer value

Handlers do not wait for it. Only an attempt that ends waits for its last value, since its row is about to move: up to
LAST_WORD_SECONDS, and not if the connection breaks. Then the value is dropped, so that nothing grows.
"""

import asyncio
import threading
import time
from functools import partial

from orchestrator import events, finish
from orchestrator.postgres.session import Session
from orchestrator.postgres.transient_errors import is_transient, reason
from orchestrator.task.claimed import Claimed

EVERY_SECONDS = 1.0
# So soon, if an attempt that ends waits for a locked row.
HURRIED_SECONDS = 0.1
# How long an attempt waits for its last value. If the database is away longer, losing the value matters little.
LAST_WORD_SECONDS = 1.0


class Progress:
    """The last progress of each handler of one worker. Its session is opened at the first report."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._waiting: dict[finish.Key, str] = {}
        self._sending: dict[finish.Key, str] = {}
        self._said = asyncio.Event()
        self._hurry = asyncio.Event()
        self._sent = asyncio.Condition()
        # How many attempts wait at their end, and how many writes have failed with the connection.
        self._ending = 0
        self._broken = 0

    def say(self, task: Claimed, value: str) -> None:
        """Note a value. Any thread may call this."""
        with self._lock:
            first = not self._waiting
            self._waiting[task.id, task.lease] = value
        if first:
            self._loop.call_soon_threadsafe(self._said.set)

    async def last_word(self, task: Claimed) -> None:
        """Wait until a task's progress is on its row, for at most LAST_WORD_SECONDS."""
        key = (task.id, task.lease)
        if self._is_sent(key):
            return
        self._hurry.set()
        self._ending += 1
        sent = asyncio.ensure_future(self._until_sent(key, self._broken))
        try:
            await asyncio.wait({sent}, timeout=LAST_WORD_SECONDS)
        finally:
            sent.cancel()
            self._ending -= 1
            with self._lock:
                self._waiting.pop(key, None)
                self._sending.pop(key, None)

    async def run(self) -> None:
        """Write progress. Never returns."""
        self._loop = asyncio.get_running_loop()
        while True:
            await self._said.wait()
            self._said.clear()
            self._hurry.clear()
            begun = time.monotonic()
            await self._write()
            # An attempt that ends cuts this wait short.
            pause = HURRIED_SECONDS if self._ending else EVERY_SECONDS
            with_hurry = asyncio.ensure_future(self._hurry.wait())
            try:
                await asyncio.wait({with_hurry}, timeout=max(0.0, begun + pause - time.monotonic()))
            finally:
                with_hurry.cancel()

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def _write(self) -> None:
        with self._lock:
            self._sending, self._waiting = self._waiting, {}
        if not self._sending:
            return
        try:
            report = partial(finish.report, reports=self._sending)
            unwritten = await self._session.run(report, give_up_on=always)
        except Exception as error:
            # A failure here must not end the worker. The session has already reported transient errors.
            unwritten = []
            if is_transient(error):
                unwritten = list(self._sending)
                self._broken += 1
            else:
                events.emit(events.DutyFailed("progress", type(error).__name__, reason(error)))
        async with self._sent:
            with self._lock:
                # A newer value counts. Of an attempt that has ended there is none any more.
                back = {key: self._sending[key] for key in unwritten if key in self._sending}
                self._waiting = back | self._waiting
                self._sending = {}
            self._sent.notify_all()
        if unwritten:
            self._said.set()

    async def _until_sent(self, key: finish.Key, broken: int) -> None:
        async with self._sent:
            await self._sent.wait_for(lambda: self._is_sent(key) or self._broken > broken)

    def _is_sent(self, key: finish.Key) -> bool:
        with self._lock:
            return key not in self._waiting and key not in self._sending


def always(_error: Exception) -> bool:
    return True
