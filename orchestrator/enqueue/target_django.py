"""A Django database, by its alias: the connection of this thread, in its atomic block if there is one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from orchestrator.enqueue.target_psycopg import Rows, Start, at_once

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Django:
    """An alias, used by a thread."""

    alias: str
    db: ModuleType  # django.db

    def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        with self.db.connections[self.alias].cursor() as cursor:
            cursor.execute(query.decode(), parameters)
            return [tuple(row) for row in cursor.fetchall()]

    def commits_at_once(self) -> bool:
        connection = self.db.connections[self.alias]
        return not connection.in_atomic_block and connection.get_autocommit()

    @contextmanager
    def together(self, _opener: bytes, _parameters: dict[str, Any]) -> Iterator[None]:
        """Make the statements in this block one unit: all of them or none."""
        with self.db.transaction.atomic(using=self.alias):
            yield

    @contextmanager
    def ahead(self) -> Iterator[Start]:
        """Its connection belongs to this thread, so each statement waits for its answer."""
        yield lambda query, parameters: at_once(self.rows(query, parameters))


@dataclass(frozen=True, slots=True)
class AsyncDjango:
    """The same, used by a coroutine: Django's connections belong to a thread, and asgiref knows which one."""

    held: Django
    sync_to_async: Callable[..., Any]

    async def run(self, act: Callable[[Django, T], R], given: T) -> R:
        """Run a function that is written for threads."""
        done: R = await self.sync_to_async(act)(self.held, given)
        return done
