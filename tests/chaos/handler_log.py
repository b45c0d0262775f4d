"""The handlers' own records, over a connection without faults of the network.

One thread of the worker's process writes them in batches. It tries again until they are written. Each execution has an
id, so a repeated write has no effect. A handler waits for its first record before it does anything else.
"""

import os
import queue
import threading
import time
from asyncio import wrap_future
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import LiteralString, NamedTuple
from uuid import UUID, uuid4

import psycopg

from orchestrator import Context

BATCH_SIZE = 200
WAIT_SECONDS = 0.05
WRITE: LiteralString = """
INSERT INTO chaos.ledger (execution, what, task_id, attempt, lease, token, who, how)
SELECT * FROM unnest(
    %s::uuid[], %s::text[], %s::bigint[], %s::integer[], %s::bigint[], %s::text[], %s::text[], %s::text[]
)
ON CONFLICT DO NOTHING
"""


class Entry(NamedTuple):
    """One line."""

    execution: UUID
    what: str
    task_id: int
    attempt: int
    lease: int
    token: str
    who: str
    how: str | None = None


class Ledger:
    """Writes entries from any thread. Its own thread begins with the first entry."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._entries: queue.SimpleQueue[tuple[Entry, Future[None]]] = queue.SimpleQueue()
        self._begin = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: psycopg.Connection | None = None

    def write(self, entry: Entry) -> Future[None]:
        """Queue an entry. The future ends when it is written."""
        with self._begin:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="chaos ledger", daemon=True)
                self._thread.start()
        written: Future[None] = Future()
        self._entries.put((entry, written))
        return written

    def _run(self) -> None:
        # Ends with the process.
        while True:
            batch = [self._entries.get()]
            while len(batch) < BATCH_SIZE and not self._entries.empty():
                batch.append(self._entries.get())
            self._insert([entry for entry, _ in batch])
            for _, written in batch:
                if written.set_running_or_notify_cancel():
                    written.set_result(None)

    def _insert(self, entries: list[Entry]) -> None:
        # Ends when it is written, or when the process is killed: the server comes back.
        while True:
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(
                        self._url, autocommit=True, connect_timeout=3, application_name="chaos ledger"
                    )
                self._connection.execute(WRITE, [list(column) for column in zip(*entries, strict=True)])
                return
            except psycopg.OperationalError:
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
                time.sleep(WAIT_SECONDS)


WHO = os.environ.get("CHAOS_WHO", "unnamed")
ledger = Ledger(os.environ.get("CHAOS_LEDGER_URL", ""))


def open_for(who: str, url: str) -> None:
    """Set the name of this process, after a fork, and the URL of the ledger."""
    global WHO, ledger
    WHO, ledger = who, Ledger(url)


@asynccontextmanager
async def written(context: Context, token: str) -> AsyncIterator[None]:
    """Record that this execution begins, and how it ends. The worker gets the outcome afterwards: a kill may follow."""
    begun = Entry(uuid4(), "begun", context.id, context.attempt, context.lease, token, WHO)
    await wrap_future(ledger.write(begun))
    try:
        yield
    except Exception as error:
        await wrap_future(ledger.write(ended(begun, type(error).__name__)))
        raise
    except BaseException as error:
        # No wait: a cancelled handler must end.
        ledger.write(ended(begun, type(error).__name__))
        raise
    await wrap_future(ledger.write(ended(begun, "returned")))


@contextmanager
def written_in_thread(context: Context, token: str) -> Iterator[None]:
    """The same for a `def` handler."""
    begun = Entry(uuid4(), "begun", context.id, context.attempt, context.lease, token, WHO)
    ledger.write(begun).result()
    try:
        yield
    except BaseException as error:
        ledger.write(ended(begun, type(error).__name__)).result()
        raise
    ledger.write(ended(begun, "returned")).result()


def ended(begun: Entry, how: str) -> Entry:
    return begun._replace(what="ended", how=how)
