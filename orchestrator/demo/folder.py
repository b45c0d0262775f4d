"""The folder of a demo: one run uses it at a time, and starts with new tables."""

import fcntl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from psycopg import errors

from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.postgres import connect, statement
from orchestrator.schema import migrate

RESET = statement.load(__file__, "reset.sql")
LOCK = "demo.lock"


class DemoRuns(OrchestratorError):
    """Another demo runs in this folder; wait for its end, or use another folder with --data."""


@contextmanager
def taken(folder: Path) -> Iterator[None]:
    """Lock the folder for the duration of a block. Make it if it does not exist."""
    lock = folder / LOCK
    if (folder / "cluster").exists() and not lock.exists():
        raise ConfigError(
            f"{folder} holds a database that no demo made, and a demo deletes the tables in its folder; choose another "
            "folder"
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used: {error.strerror}; choose another with --data") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoRuns from None
        yield


def make_tables(url: str) -> str:
    """Replace the tables by new ones. Return the server's version."""
    with closing(connect.open_sync(connect.conninfo(url))) as connection:
        try:
            connection.execute(RESET)
        except errors.LockNotAvailable:
            raise OrchestratorError(
                "the demo's tables cannot be dropped: a session, perhaps an `orchestrator sql`, uses them in an open "
                "transaction; end it and try again"
            ) from None
        version = str(connection.info.parameter_status("server_version"))
    migrate.upgrade(url)
    return version
