"""The connections of one worker. Each has its own application_name, visible in pg_stat_activity."""

from orchestrator.postgres import connect
from orchestrator.postgres.reconnect import Reconnect
from orchestrator.postgres.session import Session
from orchestrator.postgres.thread_connection import ThreadConnection


class Connections:
    """Makes connections to one database. Each opens at its first use."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.reach = Reconnect()

    def info(self, purpose: str) -> str:
        """Return the connection string for a purpose."""
        return connect.conninfo(self._url, application_name=f"orchestrator {purpose}")

    def session(self, purpose: str) -> Session:
        """Return a session for the event loop."""
        return Session(self.info(purpose), purpose=purpose, reach=self.reach)

    def line(self, purpose: str) -> ThreadConnection:
        """Return a connection for a thread."""
        return ThreadConnection(self.info(purpose), purpose=purpose, reach=self.reach)
