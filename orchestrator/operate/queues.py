"""Show the queues and control them: pause, resume, drain, set the defaults of their tasks and their retention.

A pause is stored in the queue's row, with actor and reason: it survives restarts and holds from the next claim on. Acts
are recorded in orchestrator.audit.
"""

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import psycopg
from psycopg.rows import class_row, scalar_row, tuple_row

from orchestrator.errors import OperationRefused
from orchestrator.postgres import statement

QUEUES = statement.load(__file__, "queues.sql", "list")
STATE = statement.load(__file__, "queues.sql", "set_state")
DEFAULTS = statement.load(__file__, "queues.sql", "set_defaults")
RETENTION = statement.load(__file__, "queues.sql", "set_retention")
RATES = statement.load(__file__, "queues.sql", "rates")
NAMES = statement.load(__file__, "queues.sql", "names")

# The period that `rates` in queues.sql reads.
MINUTES = 15
NO_QUEUE = "OR005"
State = Literal["active", "paused", "draining"]
# The options that `clear` may name; retention always has a value.
CLEARABLE = ("priority", "max_attempts", "timeout", "aging")


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue, and its counts at `as_of`; None: it is not counted yet. `per_second`: the tasks that it completes
    now; `by_minute`: the tasks that it completed, the current minute last; empty: not requested."""

    name: str
    state: str
    state_since: datetime | None
    state_by: str | None
    state_reason: str | None
    ready: int | None
    held: int | None
    scheduled: int | None
    blocked: int | None
    dead_letters: int | None
    oldest_ready_age: timedelta | None
    next_due_at: datetime | None
    as_of: datetime | None
    priority: int | None = None
    max_attempts: int | None = None
    timeout: timedelta | None = None
    aging: timedelta | None = None
    keep_finished: timedelta | None = None
    keep_dead: timedelta | None = None
    per_second: float | None = None
    by_minute: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The options to set; None leaves one unchanged. `clear` names options to reset to the built-in defaults."""

    priority: int | None = None
    max_attempts: int | None = None
    timeout: timedelta | None = None
    aging: timedelta | None = None
    keep_finished: timedelta | None = None
    keep_dead: timedelta | None = None
    clear: Sequence[str] = ()


def queues(connection: psycopg.Connection[Any], *, exact: bool = False) -> list[Queue]:
    """Return all queues, by name; `exact` counts instead of reading samples."""
    with connection.cursor(row_factory=class_row(Queue)) as cursor:
        return cursor.execute(QUEUES, {"exact": exact}).fetchall()


def with_rates(connection: psycopg.Connection[Any], found: Sequence[Queue]) -> list[Queue]:
    """Return the queues with the tasks completed in the last 15 minutes, from the workers' statistics."""
    done: dict[str, list[int]] = {}
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(RATES).fetchall()
    for name, minutes_ago, completed, _ in rows:
        done.setdefault(name, [0] * MINUTES)[MINUTES - 1 - minutes_ago] = completed
    # The previous minute as well: workers may have written no statistics of the current one yet.
    seconds = 60 + max((row[3] for row in rows), default=0.0)
    lately = {name: sum(by_minute[-2:]) / seconds for name, by_minute in done.items()}
    return [
        replace(each, per_second=lately.get(each.name, 0.0), by_minute=done.get(each.name, [0] * MINUTES))
        for each in found
    ]


def queue(connection: psycopg.Connection[Any], name: str) -> Queue:
    """Return one queue; refuse an unknown name."""
    for each in queues(connection):
        if each.name == name:
            return each
    raise unknown(connection, name, None)


def set_state(connection: psycopg.Connection[Any], queue: str, state: State, *, reason: str | None) -> None:
    """Pause, resume (active) or drain a queue: a paused queue gives out no tasks, a draining one takes no new tasks."""
    with known(connection, queue):
        connection.execute(STATE, {"queue": queue, "state": state, "reason": reason})


def change(connection: psycopg.Connection[Any], queue: str, what: Change, *, reason: str | None) -> None:
    """Set the defaults of a queue's new tasks, and how long its ended tasks are kept."""
    given = {"queue": queue, "reason": reason}
    defaults = {name: getattr(what, name) for name in CLEARABLE}
    kept = {"keep_finished": what.keep_finished, "keep_dead": what.keep_dead}
    with (
        known(connection, queue),
        connection.transaction(),
        connection.cursor(row_factory=tuple_row) as cursor,
    ):
        if what.clear or any(value is not None for value in defaults.values()):
            cursor.execute(DEFAULTS, {**given, **defaults, "clear": list(what.clear)})
        if any(value is not None for value in kept.values()):
            cursor.execute(RETENTION, {**given, **kept})


@contextmanager
def known(connection: psycopg.Connection[Any], queue: str) -> Iterator[None]:
    """Return the error for an unknown name, with the most similar known name."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate != NO_QUEUE:
            raise
        hint = error.diag.message_hint
    else:
        return
    raise unknown(connection, queue, hint)


def unknown(connection: psycopg.Connection[Any], queue: str, hint: str | None) -> OperationRefused:
    with connection.cursor(row_factory=scalar_row) as cursor:
        names = cursor.execute(NAMES).fetchall()
    close = difflib.get_close_matches(queue, names, n=1)
    advice = f"Did you mean {close[0]}?" if close else hint
    return OperationRefused(f"there is no queue {queue!r}", sqlstate=NO_QUEUE, hint=advice)
