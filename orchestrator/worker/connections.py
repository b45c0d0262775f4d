"""A worker's own connections, each under a name of its own, for whoever looks into pg_stat_activity."""

from orchestrator.postgres import connect
from orchestrator.postgres.line import Line
from orchestrator.postgres.reach import Reach
from orchestrator.postgres.session import Session


class Connections:
    """Makes them, for one database; none is opened before it is used."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.reach = Reach()

    def info(self, purpose: str) -> str:
        """Return the connection string for a purpose."""
        return connect.conninfo(self._url, application_name=f"orchestrator {purpose}")

    def session(self, purpose: str) -> Session:
        """Return one for the loop."""
        return Session(self.info(purpose), purpose=purpose, reach=self.reach)

    def line(self, purpose: str) -> Line:
        """Return one for a thread."""
        return Line(self.info(purpose), purpose=purpose, reach=self.reach)
