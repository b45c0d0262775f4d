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
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import psycopg

from orchestrator import events
from orchestrator.postgres import statement, transient
from orchestrator.task.buckets import Histogram

STATISTICS = statement.load(__file__, "statistics.sql")

# Of so many types between two writes, and no more: what a task is called, anybody may say, and the next beat waits
# until all is written (1,000 new ones took 2.2 s).
KEYS_MAX = 200
# Then one for all others of a queue, of so many queues; then one for all.
QUEUES_MAX = 50
OTHER_TYPES = "(other)"
JITTER = 0.1

T = TypeVar("T")


class Sum:
    """What is known of one type in one queue. Added to in place: a batch changes few of its buckets."""

    __slots__ = ("counts", "run", "run_seconds", "wait", "wait_seconds")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.wait: dict[int, int] = {}
        self.run: dict[int, int] = {}
        self.wait_seconds = self.run_seconds = 0.0

    def add(self, counts: Mapping[Any, int], wait: Histogram, run: Histogram) -> None:
        """Add some more."""
        increase(self.counts, counts)
        increase(self.wait, wait.buckets)
        increase(self.run, run.buckets)
        self.wait_seconds += wait.seconds
        self.run_seconds += run.seconds


Key = tuple[str, str]
Sums = dict[Key, Sum]


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
                for key, known in sending.items():
                    wait = Histogram(known.wait, known.wait_seconds)
                    run = Histogram(known.run, known.run_seconds)
                    sum_of(self._waiting, key).add(known.counts, wait, run)
            if isinstance(error, transient.IN_THE_WAY):
                events.emit(events.DutyPutOff("statistics", transient.reason(error)))
            else:
                events.emit(events.DutyFailed("statistics", type(error).__name__, transient.reason(error)))

    def _add(self, event: events.Event) -> None:
        if isinstance(event, events.OutcomesWritten) and event.worker_id in self._ids:
            with self._lock:
                for tally in event.tallies:
                    sum_of(self._waiting, (tally.queue, tally.type)).add(tally.counts, tally.wait, tally.run)

    def _put_off(self, share: float) -> None:
        self._due_at = time.monotonic() + share * self._every_seconds


def increase(known: dict[T, int], more: Mapping[T, int]) -> None:
    for name, count in more.items():
        known[name] = known.get(name, 0) + count


def sum_of(sums: Sums, key: Key) -> Sum:
    """Return what is known of a queue and type; when there are too many, of the rest under one name."""
    if key not in sums and len(sums) >= KEYS_MAX:
        key = (key[0], OTHER_TYPES) if len(sums) < KEYS_MAX + QUEUES_MAX else (OTHER_TYPES, OTHER_TYPES)
    known = sums.get(key)
    if known is None:
        known = sums[key] = Sum()
    return known


def rows(sums: Sums) -> list[dict[str, Any]]:
    """Say them as record_statistics() takes them."""
    return [
        {
            "queue": queue,
            "type": kind,
            **known.counts,
            "wait": known.wait,
            "run": known.run,
            "wait_seconds": known.wait_seconds,
            "run_seconds": known.run_seconds,
        }
        for (queue, kind), known in sums.items()
    ]
