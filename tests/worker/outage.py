"""Make one database unreachable and reachable again: its sessions end, and new ones are refused."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql


class Outage:
    """Uses a superuser's session on another database of the same server."""

    def __init__(self, administrator: psycopg.Connection, name: str, spared: int) -> None:
        self._administrator = administrator
        self._name = sql.Identifier(name)
        self._database = name
        self._spared = spared

    def begin(self) -> None:
        """Refuse new sessions, and end all but the test's own."""
        self._administrator.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(self._name))
        self._administrator.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
            [self._database, self._spared],
        )

    def end(self) -> None:
        """Allow sessions again."""
        self._administrator.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(self._name))


@contextmanager
def possible(administrator: psycopg.Connection, connection: psycopg.Connection) -> Iterator[Outage]:
    """Yield an outage that has not begun, and end it afterwards."""
    outage = Outage(administrator, connection.info.dbname, connection.info.backend_pid)
    try:
        yield outage
    finally:
        outage.end()
