"""Let a duty write only while its term holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from orchestrator.errors import OrchestratorError
from orchestrator.postgres import statement

FENCE = statement.load(__file__, "fence.sql")


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leader and its term. The fence of each duty's transaction checks both."""

    worker_id: UUID
    term: int


class TermOver(OrchestratorError):
    """This worker does not lead any more in this term; the duty was not done."""


@contextmanager
def fenced(
    connection: psycopg.Connection[Any], leadership: Leadership, *, limit_seconds: float
) -> Iterator[None]:
    """Open a transaction that commits only in this term. The server ends it after the limit."""
    given = {
        "id": leadership.worker_id,
        "term": leadership.term,
        "limit": f"{max(1, round(limit_seconds * 1000))}ms",
    }
    with connection.transaction():
        if connection.execute(FENCE, given).fetchone() is None:
            raise TermOver
        yield
