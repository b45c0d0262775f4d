"""Find tasks: a page of a list, their number, and an export of whole tasks.

Each statement is short and bounded, because a long one stops vacuum in a database where tasks run. A page has a limit;
a count stops at a limit and then uses the planner's estimate; an export goes page by page.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.errors import QueryCanceled
from psycopg.rows import tuple_row

from orchestrator.operate import filters, search
from orchestrator.operate.filters import Search
from orchestrator.postgres import statement

NOW = statement.load(__file__, "find.sql", "now")
NAMES = statement.load(__file__, "find.sql", "names")
WITHIN = statement.load(__file__, "find.sql", "statement_timeout")

# A statement, composed or loaded from its file, and its parameters.
Asked = tuple[sql.Composed | bytes, Mapping[str, object]]

COUNT_MAX = 100_000
COUNT_LEAST = 1_000
COUNT_SECONDS = 2.0
# A payload has at most 256 KiB, unless a manual statement wrote it: a page is rarely more than a few megabytes.
EXPORT_PAGE = 200
EXPORTED_FIELDS = (
    "id", "status", "queue", "type", "priority", "attempt", "max_attempts", "losses", "created_at", "run_at",
    "claimed_at", "started_at", "finished_at", "timeout", "worker_id", "key", "tags", "payload", "metadata", "result",
    "error", "progress", "trace_context",
)  # fmt: skip
JSON_FIELDS = frozenset({"payload", "metadata", "result", "error", "progress", "trace_context"})


@dataclass(frozen=True, slots=True)
class Found:
    """A task in a list."""

    id: int
    status: str
    queue: str
    type: str
    priority: int
    attempt: int
    max_attempts: int
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker_id: UUID | None
    key: str | None
    tags: list[str] | None
    error_class: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """Some tasks, and the id after which the next page begins; None: this is the last page."""

    tasks: tuple[Found, ...]
    after: int | None


@dataclass(frozen=True, slots=True)
class Number:
    """The number of tasks; if counting takes too long, an estimate or a lower bound."""

    count: int
    exact: bool
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """The declared names."""

    queues: tuple[str, ...]
    types: tuple[str, ...]


def now(connection: psycopg.Connection[Any]) -> datetime:
    """Return the database's time, from which ages are computed."""
    row = rows(connection, (NOW, {}))[0]
    moment: datetime = row[0]
    return moment


def age(connection: psycopg.Connection[Any], text: str | None) -> datetime | None:
    """Return the moment that an age means."""
    return None if text is None else filters.moment(text, now=now(connection))


def names(connection: psycopg.Connection[Any]) -> Names:
    """Return the declared names, to suggest one for a mistyped name."""
    queues, types = rows(connection, (NAMES, {}))[0]
    return Names(tuple(queues), tuple(types))


def page(connection: psycopg.Connection[Any], wanted: Search, *, after: int | None, most: int) -> Page:
    """Return the newest tasks, or the page that follows `after`."""
    found = rows(connection, search.page(wanted, after=after, most=most + 1))
    tasks = tuple(Found(*row) for row in found[:most])
    return Page(tasks, tasks[-1].id if len(found) > most else None)


def first(connection: psycopg.Connection[Any], wanted: Search, *, most: int) -> tuple[Found, ...]:
    """Return the oldest tasks: an act begins with them."""
    return tuple(Found(*row) for row in rows(connection, search.first(wanted, most=most)))


def count(connection: psycopg.Connection[Any], wanted: Search) -> Number:
    """Count to a hundred thousand within two seconds; if that takes longer, count to a thousand and ask the planner."""
    for most in (COUNT_MAX, COUNT_LEAST):
        counted = counted_to(connection, wanted, most + 1)
        if counted is not None and counted <= most:
            return Number(counted, exact=True)
        if counted is not None:
            break
    planned = rows(connection, search.estimate(wanted))[0][0][0]["Plan"]["Plan Rows"]
    # The planner has no statistics for a filter on an error's text, and its guess is too low.
    least = counted or 0
    return Number(max(planned, least), exact=False, at_least=planned <= least)


def counted_to(connection: psycopg.Connection[Any], wanted: Search, most: int) -> int | None:
    """Count up to a limit; None if that takes too long."""
    try:
        with connection.transaction():
            rows(connection, (WITHIN, {"milliseconds": f"{round(COUNT_SECONDS * 1000)}"}))
            counted: int = rows(connection, search.count(wanted, most=most))[0][0]
            return counted
    except QueryCanceled:
        return None


def export(
    connection: psycopg.Connection[Any], wanted: Search, *, most: int | None
) -> Iterator[tuple[Any, ...]]:
    """Yield whole tasks, with EXPORTED_FIELDS, the oldest first, up to a limit.

    Ends: each page begins after the last one.
    """
    after, upto = span(connection, wanted)
    left = most
    while left is None or left > 0:
        size = EXPORT_PAGE if left is None else min(left, EXPORT_PAGE)
        found = rows(connection, search.export(wanted, after=after, upto=upto, most=size))
        yield from found
        if len(found) < size:
            return
        after = found[-1][0]
        left = None if left is None else left - len(found)


def span(connection: psycopg.Connection[Any], wanted: Search, *, after: int = 0) -> tuple[int, int]:
    """Return the range of ids of the tasks above `after`: exclusive start, inclusive end; equal if there are none."""
    first, last = rows(connection, search.span(wanted, after=after))[0]
    return (after, after) if first is None else (first - 1, last)


def rows(connection: psycopg.Connection[Any], asked: Asked) -> list[Any]:
    """Run a statement, planned for these values, and return its rows."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(*asked, prepare=False).fetchall()
