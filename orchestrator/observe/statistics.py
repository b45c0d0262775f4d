"""Add up what a worker has written, and put it into the database once in a while: one statement for all of it.

    told ──► waiting ──► sending ──► in the database
                ▲           │
                └───────────┘   refused (a lock, a timeout): with the next

Written on the thread and the connection of the heartbeat, behind a beat, so that neither claims nor outcomes wait for
it, and a worker for which nothing happened says nothing. What is counted was written under its lease, by whomever: so
it may be told late, by a worker that was declared dead meanwhile, and is true.

Nothing is counted twice, and little is missed: where the connection breaks under the statement nobody knows whether it
was done, and it is not sent again; a worker that is killed has not told of its last interval.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from orchestrator import events
from orchestrator.postgres import statement, transient
from orchestrator.task.buckets import added
from orchestrator.task.tally import Tally

STATISTICS = statement.load(__file__, "statistics.sql")

# Of so many types between two writes, and no more: what a task is called, anybody may say.
KEYS_MAX = 1000
OTHER_TYPES = "(other)"
JITTER = 0.1

Key = tuple[str, str]
Sums = dict[Key, Tally]


class Statistics:
    """What the workers of some ids have written: those of one process's one worker, whatever its id was."""

    def __init__(self, *, every_seconds: float) -> None:
        self._every_seconds = every_seconds
        self._lock = threading.Lock()
        self._ids: set[UUID] = set()
        self._waiting: Sums = {}
        self._due_at = 0.0
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin to count; nothing is counted that is not to be written."""
        if self._every_seconds > 0:
            self._unsubscribe = events.subscribe(self._add, to=[events.OutcomesWritten])
            self._put_off(random.random())  # nosec B311 # noqa: S311 - workers that start at once do not write at once

    def stop(self) -> None:
        """Count no more."""
        self._unsubscribe()

    def answer_for(self, worker_id: UUID) -> None:
        """Count what is written under this id, too. There may be other workers in this process, on other databases."""
        self._ids.add(worker_id)

    def write_if_due(self, connection: psycopg.Connection[Any]) -> None:
        """Write what has been counted, if it is time and there is anything."""
        if self._waiting and time.monotonic() >= self._due_at:
            self.write(connection)

    def write(self, connection: psycopg.Connection[Any]) -> None:
        """Write what has been counted. Raises only what broke the connection."""
        self._put_off(random.uniform(1 - JITTER, 1 + JITTER))  # nosec B311 # noqa: S311 - a jitter is no secret
        with self._lock:
            sending, self._waiting = self._waiting, {}
        if not sending:
            return
        try:
            connection.execute(
                STATISTICS, {"rows": msgspec.json.encode(rows(sending)).decode()}, prepare=False
            )
        except psycopg.Error as error:
            if connection.closed:
                raise
            with self._lock:
                for tally in sending.values():
                    add(self._waiting, tally)
            if isinstance(error, transient.IN_THE_WAY):
                events.emit(events.DutyPutOff("statistics", transient.reason(error)))
            else:
                events.emit(events.DutyFailed("statistics", type(error).__name__, transient.reason(error)))

    def _add(self, event: events.Event) -> None:
        if isinstance(event, events.OutcomesWritten) and event.worker_id in self._ids:
            with self._lock:
                for tally in event.tallies:
                    add(self._waiting, tally)

    def _put_off(self, share: float) -> None:
        self._due_at = time.monotonic() + share * self._every_seconds


def add(sums: Sums, tally: Tally) -> None:
    """Add a tally to what is known of its queue and type; when there are too many, under one name."""
    key = (tally.queue, tally.type)
    if key not in sums and len(sums) >= KEYS_MAX:
        key = (tally.queue, OTHER_TYPES) if len(sums) < 2 * KEYS_MAX else (OTHER_TYPES, OTHER_TYPES)
    before = sums.get(key)
    sums[key] = Tally(
        *key,
        counts=Counter(before.counts if before else {}) + Counter(tally.counts),
        wait=added(before.wait, tally.wait) if before else tally.wait,
        run=added(before.run, tally.run) if before else tally.run,
    )


def rows(sums: Sums) -> list[dict[str, Any]]:
    """Say them as record_statistics() takes them."""
    return [
        {
            "queue": tally.queue,
            "type": tally.type,
            **{str(word): count for word, count in tally.counts.items()},
            "wait": tally.wait.buckets,
            "run": tally.run.buckets,
            "wait_seconds": tally.wait.seconds,
            "run_seconds": tally.run.seconds,
        }
        for tally in sums.values()
    ]
