"""Add up the outcomes that a worker has written, and write the sums to the database at intervals, in one statement.

    event ──► waiting ──► sending ──► in the database
                ▲            │
                └────────────┘   refused (a lock, a timeout): sent with the next

They are written on the thread and the connection of the heartbeat, after a beat, so that neither claims nor outcomes
wait for them. A worker without outcomes writes nothing. Every counted outcome was written under its lease. So the
counts are true even if they are late, from a worker that was declared dead meanwhile.

Nothing is counted twice, and little is missed. If the connection breaks during the statement, its effect is unknown,
and it is not sent again. A killed worker loses its last interval.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar
from uuid import UUID

import msgspec
import psycopg

from orchestrator import events
from orchestrator.postgres import statement, transient_errors
from orchestrator.task.tally import Tally, Word

STATISTICS = statement.load(__file__, "statistics.sql")

# At most so many types between two writes: any producer may invent types, and the next beat waits until all are written
# (1,000 new ones took 2.2 s).
KEYS_MAX = 200
# Beyond that, one key for all other types of a queue, for so many queues. Beyond that, one key for everything.
QUEUES_MAX = 50
OTHER_TYPES = "(other)"
JITTER = 0.1

T = TypeVar("T")


@dataclass(slots=True)
class Times:
    """A histogram that grows. It is changed in place: a batch changes few buckets."""

    buckets: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(slots=True)
class Sum:
    """The sums of one type in one queue."""

    counts: dict[Word, int] = field(default_factory=dict)
    wait: Times = field(default_factory=Times)
    run: Times = field(default_factory=Times)

    def add(self, more: Tally | Self) -> None:
        """Add the counts and times of a batch, or of another sum."""
        increase(self.counts, more.counts)
        for own, other in ((self.wait, more.wait), (self.run, more.run)):
            increase(own.buckets, other.buckets)
            own.seconds += other.seconds


def increase(known: dict[T, int], more: Mapping[T, int]) -> None:
    # A Counter's update() takes 1 µs more each time.
    for name, count in more.items():
        known[name] = known.get(name, 0) + count


Key = tuple[str, str]
Sums = dict[Key, Sum]


class Statistics:
    """The outcomes that one worker has written, under all the ids that it has had."""

    def __init__(self, *, every_seconds: float) -> None:
        self._every_seconds = every_seconds
        self._lock = threading.Lock()
        self._ids: set[UUID] = set()
        self._waiting: Sums = {}
        self._due_at = 0.0
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin to count, unless the interval is 0 and nothing is to be written."""
        if self._every_seconds > 0:
            self._unsubscribe = events.subscribe(self._add, to=[events.OutcomesWritten])
            self._put_off(random.random())  # nosec B311 # noqa: S311 - workers that start at once do not write at once

    def stop(self) -> None:
        """Stop counting."""
        self._unsubscribe()

    def answer_for(self, worker_id: UUID) -> None:
        """Also count outcomes under this id. Other workers in this process may use other databases."""
        self._ids.add(worker_id)

    def write_if_due(self, connection: psycopg.Connection[Any]) -> None:
        """Write the counts if there are any and the interval is over."""
        if self._waiting and time.monotonic() >= self._due_at:
            self.write(connection)

    def write(self, connection: psycopg.Connection[Any]) -> None:
        """Write the counts. Raises only an error that broke the connection."""
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
                    sum_of(self._waiting, key).add(known)
            if isinstance(error, transient_errors.IN_THE_WAY):
                events.emit(events.DutyPutOff("statistics", transient_errors.reason(error)))
            else:
                events.emit(
                    events.DutyFailed("statistics", type(error).__name__, transient_errors.reason(error))
                )

    def _add(self, event: events.Event) -> None:
        if isinstance(event, events.OutcomesWritten) and event.worker_id in self._ids:
            with self._lock:
                for tally in event.tallies:
                    sum_of(self._waiting, (tally.queue, tally.type)).add(tally)

    def _put_off(self, share: float) -> None:
        self._due_at = time.monotonic() + share * self._every_seconds


def sum_of(sums: Sums, key: Key) -> Sum:
    """Return the sum of a queue and type. If there are too many, return the sum of the rest."""
    if key not in sums and len(sums) >= KEYS_MAX:
        key = (key[0], OTHER_TYPES) if len(sums) < KEYS_MAX + QUEUES_MAX else (OTHER_TYPES, OTHER_TYPES)
    if key not in sums:
        sums[key] = Sum()
    return sums[key]


def rows(sums: Sums) -> list[dict[str, Any]]:
    """Return the sums in the form that record_statistics() takes."""
    return [
        {
            "queue": queue, "type": kind, **{str(word): count for word, count in known.counts.items()},
            "wait": known.wait.buckets, "wait_seconds": known.wait.seconds,
            "run": known.run.buckets, "run_seconds": known.run.seconds,
        }
        for (queue, kind), known in sums.items()
    ]  # fmt: skip
