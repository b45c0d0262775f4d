"""A second server that follows a first one by streaming replication, and can become the primary.

primary = Server(…).start()
standby = Standby(primary, directory).start()
standby.promote()
"""

from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from orchestrator.postgres import embedded_folder
from tests.patience import eventually
from tests.servers import Server


class Standby(Server):
    """Made from a base backup of its primary by its first start. `through`: the URL of another way there."""

    def __init__(self, primary: Server, directory: Path, *, through: str | None = None) -> None:
        super().__init__(primary.binaries, directory)
        self.primary = primary
        self._way = make_conninfo(through or primary.url(), dbname="", application_name="standby")

    def promote(self) -> None:
        """Be the primary from now on; return when it takes writes."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote(true, 30)").fetchone() == (True,), self.log

    def wait_for(self, position: str) -> None:
        """Return when it has everything up to this place in the primary's log."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            eventually(
                lambda: (
                    connection.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [position]).fetchone()
                    == (True,)
                ),
                "the standby has caught up",
            )

    def _initialise(self) -> None:
        self.directory.mkdir(exist_ok=True)
        embedded_folder.let_traverse(self.cluster, self._owner)
        embedded_folder.make_private(self.cluster, self._owner)
        command = [str(self.binaries / "pg_basebackup"), "-D", str(self.cluster), "-d", self._way]
        command += ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        assert self._spawn(command).wait() == 0, self.log


def either(first: Server, second: Server) -> str:
    """Return the URL of whichever of the two takes writes."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in (first, second))
    return f"postgresql://{first.superuser}@{hosts}/postgres?target_session_attrs=read-write"


def position(server: Server) -> str:
    """Return how far its log has come."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        return str(row[0])
