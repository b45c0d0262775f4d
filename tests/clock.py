"""A database clock that a test controls: it stands still, and moves when the test advances it.

    clock.advance(hours=1)

It replaces `orchestrator.clock()` in the test's own database. It is no setting, because any role could change a
setting.
"""

from datetime import UTC, datetime, timedelta

import psycopg

REPLACEMENT = """
CREATE TABLE orchestrator.test_clock AS SELECT orchestrator.clock() AS now;
GRANT SELECT ON orchestrator.test_clock TO PUBLIC;
CREATE OR REPLACE FUNCTION orchestrator.clock()
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT t.now FROM orchestrator.test_clock AS t $$;
"""


class Clock:
    """Stands at the moment it was made, for every session of this database."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        connection.execute(REPLACEMENT)

    @property
    def now(self) -> datetime:
        """What every statement takes for the present."""
        row = self._connection.execute("SELECT orchestrator.clock()").fetchone()
        assert row is not None
        moment: datetime = row[0]
        return moment.astimezone(UTC)

    def set(self, moment: datetime) -> None:
        """Move it to a moment, before or behind."""
        self._connection.execute("UPDATE orchestrator.test_clock SET now = %s", [moment])

    def advance(self, **by: float) -> None:
        """Move it by so many `days`, `hours`, `minutes`, `seconds`, as `timedelta` takes them."""
        self.set(self.now + timedelta(**by))
