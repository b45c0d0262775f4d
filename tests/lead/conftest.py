"""Candidates for the lead: rows of workers, and their sessions."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg
import pytest

from orchestrator import lead
from orchestrator.lead import Gone, Leadership
from orchestrator.postgres.session import SETTINGS

TERM_SECONDS = 10.0
REGISTER = """
INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity) VALUES (%s, 'host', 1, '0', '{default}', 1)
"""


@dataclass
class Candidate:
    """One worker's row, and the session of its elections and duties."""

    id: UUID
    session: psycopg.Connection

    def stand(self, gone: Gone | None = None) -> int | None:
        """Stand for election. Return the term if it was won."""
        return lead.elect(self.session, worker_id=self.id, term_seconds=TERM_SECONDS, gone=gone)

    def leadership(self) -> Leadership:
        """Stand for election, and win."""
        term = self.stand()
        assert term is not None
        return Leadership(self.id, term)


@pytest.fixture
def candidate(database_url: str) -> Iterator[Callable[[], Candidate]]:
    """Make one more worker on the test's database."""
    with ExitStack() as sessions:

        def make() -> Candidate:
            session = sessions.enter_context(psycopg.connect(database_url, autocommit=True))
            session.execute(SETTINGS)
            made = Candidate(uuid4(), session)
            session.execute(REGISTER, [made.id])
            return made

        yield make
