"""A PgBouncer of the tests' own in front of a server: transaction pooling, a loopback port, a temporary directory.

PgBouncer refuses to run as root, so as root the tests run it as the user of the embedded server.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from orchestrator.postgres import embedded_folder
from tests.patience import PATIENCE_SECONDS, eventually

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def follows_prepared_statements() -> bool:
    """Whether this PgBouncer passes its clients' prepared statements on: from 1.24 on it does so by default."""
    assert PROGRAM is not None
    version = subprocess.run(
        [PROGRAM, "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    return tuple(map(int, version.split(".")[:2])) >= (1, 24)


INI = """
[databases]
{database} = host={host} port={port} dbname={database} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 500
server_idle_timeout = 5
ignore_startup_parameters = extra_float_digits
logfile =
pidfile =
"""


@contextmanager
def bouncing(url: str, directory: Path, *, pool_size: int = 5) -> Iterator[str]:
    """Run a PgBouncer with so many sessions on the server; give the URL through it."""
    assert PROGRAM is not None, "Debian: apt-get install pgbouncer"
    given = conninfo_to_dict(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listen_port = listener.getsockname()[1]
    path = directory / "pgbouncer.ini"
    path.write_text(
        INI.format(
            database=given["dbname"], host=given["host"], port=given.get("port") or 5432,
            user=given["user"], listen_port=listen_port, pool_size=pool_size,
        )
    )  # fmt: skip
    owner = embedded_folder.account()
    if owner is not None:
        embedded_folder.let_traverse(path, owner)
        os.chown(path, owner.pw_uid, owner.pw_gid)
    with (directory / "pgbouncer.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "-q", str(path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            user=owner.pw_uid if owner else None, group=owner.pw_gid if owner else None,
            extra_groups=[] if owner else None,
        )  # fmt: skip
    through = f"postgresql://{given['user']}@127.0.0.1:{listen_port}/{given['dbname']}"

    def answers() -> bool:
        assert process.poll() is None, (directory / "pgbouncer.log").read_text()
        return pq.PGconn.ping(through.encode()) == pq.Ping.OK

    try:
        eventually(answers, "PgBouncer accepts sessions")
        yield through
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
