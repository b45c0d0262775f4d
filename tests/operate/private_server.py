"""A server of its own for states that a shared one cannot have: as durable as in production, with few sessions and
room for prepared transactions; and a replication slot that holds a snapshot, like a standby's."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from orchestrator import claim
from orchestrator.operate.doctor import Examination
from tests import servers
from tests.dumps import binaries
from tests.servers import Server

SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "max_connections": "30",
    "max_prepared_transactions": "2",
}
# Both directions at once; psycopg has no name for it in every version.
STREAMING = (pq.ExecStatus.COPY_BOTH, pq.ExecStatus.COPY_OUT)


@contextmanager
def private_server(server_url: str) -> Iterator[Server]:
    """Run a server of the same version as the shared one."""
    with servers.private(binaries(server_url), settings=SETTINGS, migrated=False) as server:
        yield server


def patient_of(connection: psycopg.Connection, url: str) -> Examination:
    """Put a database on the table, as the command line does."""
    return Examination(connection, lambda: psycopg.connect(url, autocommit=True), claim.faults_of_plan)


@contextmanager
def slot_with_a_snapshot(url: str, name: str, xmin: int) -> Iterator[None]:
    """Hold a replication slot whose follower still needs the rows of this transaction."""
    connection = psycopg.connect(make_conninfo(url, replication="database"), autocommit=True)
    link = connection.pgconn
    try:
        begun = link.exec_(f"CREATE_REPLICATION_SLOT {name} PHYSICAL RESERVE_WAL".encode())
        assert begun.status == pq.ExecStatus.TUPLES_OK, begun.error_message
        here = (link.exec_(b"IDENTIFY_SYSTEM").get_value(0, 2) or b"").decode()
        assert link.exec_(f"START_REPLICATION SLOT {name} PHYSICAL {here}".encode()).status in STREAMING
        link.put_copy_data(b"h" + struct.pack("!qIIII", 0, xmin, 0, 0, 0))
        link.flush()
        yield
    finally:
        connection.close()
