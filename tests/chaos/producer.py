"""`python -m tests.chaos.producer`: enqueue in every way, and keep a journal.

Each round draws a way and some tasks, records its intent, enqueues, and records the answer. SIGTERM ends it between two
rounds; other faults may end it at any moment.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import LiteralString

import psycopg

from orchestrator import EnqueueInDoubt, Orchestrator, OrchestratorError
from tests.chaos.handlers import LATER
from tests.chaos.producer_log import ACKNOWLEDGED, IN_DOUBT, REFUSED, ROLLED_BACK, Item, Journal

TYPES = {
    "chaos.note": 30, "chaos.note_in_thread": 8, "chaos.book": 20, "chaos.book_in_thread": 8, "chaos.linger": 3,
    "chaos.stumble": 4, "chaos.ask_again": 3, "chaos.snooze": 3, "chaos.cancel": 2, "chaos.discard": 2,
    "chaos.overrun": 1, LATER: 0.3,
}  # fmt: skip
SET_ITEMS_MAX = 20
KEYS = 3
CATCH_UP_SECONDS = 5.0
KEY_SECONDS = 1.0

INSERT: LiteralString = """
INSERT INTO orchestrator.tasks (type, payload, idempotency_key) VALUES (%s, jsonb_build_object('token', %s::text), %s)
RETURNING id
"""
ENQUEUE: LiteralString = "SELECT orchestrator.enqueue(%s, jsonb_build_object('token', %s::text), key => %s)"
ENQUEUE_MANY: LiteralString = "SELECT id FROM orchestrator.enqueue_many(%s::jsonb)"
COPY: LiteralString = "COPY orchestrator.tasks (type, payload) FROM STDIN"


class Doubt(Exception):
    """It is unknown whether the transaction was committed."""


class Producer:
    """One producer, with its journal, and the application whose tasks it enqueues."""

    def __init__(self, name: str, url: str, journal: Path, seed: str) -> None:
        self._name, self._url = name, url
        self._dice = random.Random(seed)  # noqa: S311 - no secret
        self._journal = Journal(journal)
        self._app = Orchestrator(url, pool_size=2, pool_timeout_seconds=3)
        self._connection: psycopg.Connection | None = None
        self._count = 0
        self.is_stopping = False

    def run(self, ease: Path, *, per_second: float) -> None:
        """Enqueue at this average rate; less while `ease` exists, because the workers then have enough tasks."""
        ways = list(WAYS)
        weights = [WAYS[way][0] for way in ways]
        at, n = time.monotonic(), 0
        # Ends: SIGTERM.
        while not self.is_stopping:
            n += 1
            way = self._dice.choices(ways, weights)[0]
            items = self._items(way)
            self._round(n, way, items)
            at = max(at + len(items) / per_second, time.monotonic() - CATCH_UP_SECONDS)
            # This wait only keeps the pace.
            while not self.is_stopping and (time.monotonic() < at or ease.exists()):
                time.sleep(0.01)

    def _round(self, n: int, way: str, items: list[Item]) -> None:
        self._journal.intend(n, way, items)
        try:
            ids = WAYS[way][1](self, items)
        except (Doubt, EnqueueInDoubt) as error:
            self._journal.conclude(n, IN_DOUBT, said=type(error).__name__)
        except (OrchestratorError, psycopg.Error) as error:
            self._journal.conclude(n, REFUSED, said=f"{type(error).__name__}: {error}"[:200])
        else:
            self._journal.conclude(n, ROLLED_BACK if way == "rolled back" else ACKNOWLEDGED, ids)

    def _items(self, way: str) -> list[Item]:
        kinds = list(TYPES)
        number = self._dice.randint(2, SET_ITEMS_MAX) if "set" in way or way == "COPY" else 1
        number = 3 if way == "savepoint" else number
        chosen = self._dice.choices(kinds, list(TYPES.values()), k=number)
        return [
            Item(
                self._token(), self._kind(way, kind), self._key(way), not (way == "savepoint" and place == 1)
            )
            for place, kind in enumerate(chosen)
        ]

    def _kind(self, way: str, kind: str) -> str:
        # One type, so that producers compete for the same keys.
        return "chaos.note" if "key" in way else kind

    def _key(self, way: str) -> str | None:
        if "key" not in way:
            return None
        return f"{int(time.time() / KEY_SECONDS)}:{self._dice.randrange(KEYS)}"

    def _token(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    # The ways. Each returns the ids of the enqueued tasks, raises Doubt if the result is unknown, or the error that
    # prevented the enqueue.

    def by_python(self, items: Sequence[Item]) -> list[int]:
        """One task, by name, on a connection of the application's own pool."""
        (item,) = items
        options = {"key": item.key} if item.key else {}
        return [self._app.enqueue(item.type, {"token": item.token}, **options).id]

    def set_by_python(self, items: Sequence[Item]) -> list[int]:
        """A set, all or nothing."""
        calls = [
            self._app.call(item.type, {"token": item.token}, **({"key": item.key} if item.key else {}))
            for item in items
        ]
        return [one.id for one in self._app.enqueue_many(calls)]

    def in_own_transaction(self, items: Sequence[Item]) -> list[int]:
        """With Python, on the producer's own connection, committed by the producer."""
        connection = self._begun()
        calls = [self._app.call(item.type, {"token": item.token}) for item in items]
        ids = [one.id for one in self._app.enqueue_many(calls, using=connection)]
        self._commit(connection)
        return ids

    def by_insert(self, items: Sequence[Item]) -> list[int]:
        """A plain INSERT, and a COMMIT."""
        return self._by_statements(INSERT, items)

    def by_function(self, items: Sequence[Item]) -> list[int]:
        """SELECT orchestrator.enqueue(…), and a COMMIT."""
        return self._by_statements(ENQUEUE, items)

    def set_by_function(self, items: Sequence[Item]) -> list[int]:
        """SELECT … FROM orchestrator.enqueue_many(…), and a COMMIT."""
        connection = self._begun()
        tasks = [
            {"type": item.type, "payload": {"token": item.token}, **({"key": item.key} if item.key else {})}
            for item in items
        ]
        ids = [
            int(task_id) for (task_id,) in connection.execute(ENQUEUE_MANY, [json.dumps(tasks)]).fetchall()
        ]
        self._commit(connection)
        return ids

    def by_copy(self, items: Sequence[Item]) -> list[int]:
        """COPY, which returns no ids."""
        connection = self._begun()
        with connection.cursor().copy(COPY) as copy:
            for item in items:
                copy.write_row((item.type, json.dumps({"token": item.token})))
        self._commit(connection)
        return []

    def with_savepoint(self, items: Sequence[Item]) -> list[int]:
        """Three tasks, the middle one rolled back to a savepoint."""
        connection = self._begun()
        ids = []
        for item in items:
            connection.execute("SAVEPOINT here")
            ids += [
                int(task_id)
                for (task_id,) in connection.execute(INSERT, (item.type, item.token, item.key)).fetchall()
            ]
            if not item.meant:
                connection.execute("ROLLBACK TO SAVEPOINT here")
                ids.pop()
        self._commit(connection)
        return ids

    def rolled_back(self, items: Sequence[Item]) -> list[int]:
        """Enqueued, and rolled back."""
        connection = self._begun()
        for item in items:
            connection.execute(ENQUEUE, (item.type, item.token, item.key))
        connection.rollback()
        return []

    def _by_statements(self, statement: LiteralString, items: Sequence[Item]) -> list[int]:
        connection = self._begun()
        ids = []
        for item in items:
            ids += [
                int(task_id)
                for (task_id,) in connection.execute(statement, (item.type, item.token, item.key)).fetchall()
            ]
        self._commit(connection)
        return ids

    def _begun(self) -> psycopg.Connection:
        """Return a connection without an open transaction; an open one is rolled back."""
        if self._connection is not None and not self._connection.closed:
            with suppress(psycopg.Error):
                self._connection.rollback()
                return self._connection
        if self._connection is not None:
            self._connection.close()
        self._connection = psycopg.connect(self._url)
        return self._connection

    def _commit(self, connection: psycopg.Connection) -> None:
        try:
            connection.commit()
        except psycopg.Error as error:
            if error.diag.severity_nonlocalized == "ERROR":
                raise
            raise Doubt from error


Way = Callable[[Producer, Sequence[Item]], list[int]]
WAYS: dict[str, tuple[float, Way]] = {
    "Python": (4, Producer.by_python),
    "Python with a key": (2, Producer.by_python),
    "set by Python": (1, Producer.set_by_python),
    "set by Python with keys": (0.3, Producer.set_by_python),
    "Python in a transaction": (2, Producer.in_own_transaction),
    "INSERT": (3, Producer.by_insert),
    "function": (2, Producer.by_function),
    "function with a key": (2, Producer.by_function),
    "set by function": (0.5, Producer.set_by_function),
    "set by function with keys": (0.3, Producer.set_by_function),
    "COPY": (0.3, Producer.by_copy),
    "savepoint": (1, Producer.with_savepoint),
    "rolled back": (1, Producer.rolled_back),
}


def main() -> None:
    """Read the settings from the environment. None of them is secret, but a URL is long."""
    name, url, folder = (os.environ[f"CHAOS_{word}"] for word in ("WHO", "URL", "JOURNALS"))
    producer = Producer(name, url, Path(folder) / f"{name}.jsonl", os.environ["CHAOS_SEED"])

    def stop(*_: object) -> None:
        producer.is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    producer.run(Path(os.environ["CHAOS_EASE"]), per_second=float(os.environ["CHAOS_PER_SECOND"]))
    sys.exit(0)


if __name__ == "__main__":
    main()
