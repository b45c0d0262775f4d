"""TLS with verify-full, as in docs/howto/tls.md: we accept the right server and refuse every other server.

The server accepts plaintext too, so the tests would see a fallback. It is Debian's PostgreSQL, because the embedded
server is built without TLS.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from orchestrator import Orchestrator
from orchestrator.errors import DatabaseUnavailable
from orchestrator.postgres import embedded_folder
from orchestrator.schema import migrate
from tests import servers
from tests.docs.pages import blocks
from tests.patience import eventually
from tests.schema.rows import one
from tests.security.certificates import NAME, PAGE, Shown, certify
from tests.servers import Server, debian_binaries, temporary_directory
from tests.worker.processes import run, worker

BINARIES = debian_binaries("15")
pytestmark = [
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates"),
    pytest.mark.skipif(
        not BINARIES.exists(), reason="Debian's PostgreSQL 15 is needed for TLS, and is not installed"
    ),
]

SHOP = "tests.worker.tasks:app"
SESSIONS = next(b.text for b in blocks(PAGE.read_text()) if b.language == "sql")
# The message with which we refuse each wrong server, as the page gives it.
REFUSALS = {
    "another name": "does not match host name",
    "another authority": "certificate verify failed",
    "expired": "certificate verify failed",
}
NO_TLS = "server does not support SSL, but SSL was required"


class Place:
    """A server, the certificates that it can show, and its URL."""

    def __init__(self, folder: Path) -> None:
        self.good = certify(folder / "good")
        self.others = {
            "another name": self._signed(folder / "name", name="db.example.com"),
            "another authority": certify(folder / "authority"),
            "expired": self._signed(folder / "expired", days="-1"),
        }
        self.shown = Shown(folder / "shown")
        self.shown.put(self.good)
        settings = {**self.shown.settings, "log_connections": "on"}
        self.server = Server(BINARIES, folder / "server", settings=settings)

    def url(self, **more: str) -> str:
        """Return the URL, with verify-full."""
        given = {"sslmode": "verify-full", "sslrootcert": str(self.good / "ca.crt"), **more}
        words = "&".join(f"{name}={value}" for name, value in given.items())
        return f"postgresql://jane@{NAME}:{self.server.port}/postgres?{words}"

    def shows(self, which: str) -> None:
        """Show another certificate, and wait until new connections get it."""
        self.shown.show(self.server, self.others.get(which, self.good))
        eventually(lambda: refusal_of(self.url()) == REFUSALS.get(which, ""), f"{which} is shown")

    def _signed(self, folder: Path, **how: str) -> Path:
        # The good authority signs it: only the name, or the period of validity, is wrong.
        folder.mkdir()
        for name in ("ca.crt", "ca.key"):
            shutil.copy(self.good / name, folder)
        made = certify(folder / "made", **how)
        subprocess.run(
            ["openssl", "x509", "-req", "-in", "server.csr", "-CA", "../ca.crt", "-CAkey", "../ca.key", "-days",
             how.get("days", "365"), "-copy_extensions", "copy", "-out", "server.crt"],
            cwd=made, capture_output=True, check=True,
        )  # fmt: skip
        return made


def refusal_of(url: str) -> str:
    """Return the refusal that a connection gets, or an empty text if it succeeds."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as error:
        return next((text for text in {*REFUSALS.values(), NO_TLS} if text in str(error)), str(error))
    return ""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A migrated server that accepts TLS and plaintext."""
    with temporary_directory() as folder:
        folder.chmod(0o755)
        place = Place(folder)
        try:
            place.server.start()
            migrate.upgrade(place.server.url())
            with psycopg.connect(place.server.url(), autocommit=True) as connection:
                connection.execute("CREATE ROLE jane LOGIN SUPERUSER")
            yield place
        finally:
            place.server.close()


@pytest.fixture
def connection(place: Place) -> Iterator[psycopg.Connection]:
    """The test's own session, in plaintext. After the test the server shows the good certificate again."""
    with psycopg.connect(place.server.url(), autocommit=True) as connection:
        yield connection
        connection.execute("TRUNCATE orchestrator.tasks")
    place.shows("the good one")


def in_plaintext(server: Server) -> list[str]:
    """Return the lines of the server's log that report a connection of jane without TLS."""
    return re.findall(r"connection authorized: user=jane (?!.*SSL enabled).*", server.log)


def test_all_our_connections_are_encrypted(
    place: Place, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The page's query shows TLS for the sessions of the producer's pool and for each session of the worker."""
    app = Orchestrator(place.url())
    app.enqueue("shop.add", {"first": 1, "second": 2})
    with worker(place.url(), tmp_path / "log") as process:
        eventually(lambda: process.has_logged("worker started"), "it serves")
        eventually(
            lambda: not connection.execute("SELECT FROM orchestrator.tasks_live").fetchall(),
            "the task is done",
        )
        rows = connection.execute(SESSIONS.encode()).fetchall()
    app.close()

    assert {"orchestrator producer", "orchestrator claims", "orchestrator heartbeat"} <= {
        row[0] for row in rows
    }
    assert {(True, True)} == {(ssl, version.startswith("TLSv1.")) for _, ssl, version in rows}
    assert [] == in_plaintext(place.server)


@pytest.mark.parametrize("which", REFUSALS)
def test_another_server_is_refused(place: Place, connection: psycopg.Connection, which: str) -> None:
    """Producers, workers and commands refuse it with the page's message. No connection falls back to plaintext."""
    place.shows(which)
    app = Orchestrator(place.url(), pool_timeout_seconds=0.3)

    with pytest.raises(DatabaseUnavailable) as refused:
        app.enqueue("shop.add", {"first": 1, "second": 2})
    app.close()
    commands = [
        run("migrate", "--check", url=place.url()),
        run("worker", SHOP, "--until-empty", url=place.url()),
    ]

    assert REFUSALS[which] in str(refused.value)
    assert [1, 1] == [done.returncode for done in commands]
    assert all(REFUSALS[which] in done.stderr for done in commands), commands
    assert [] == in_plaintext(place.server)
    assert all(f"`{text}`" in PAGE.read_text() for text in (REFUSALS[which], NO_TLS))


def test_a_server_without_tls_is_refused(server_url: str) -> None:
    """With verify-full the command fails. With libpq's default it connects in plaintext."""
    with servers.private(embedded_folder.binaries(), migrated=False) as server:
        plain = make_conninfo(server.url())
        done = run("migrate", url=make_conninfo(plain, sslmode="verify-full", sslrootcert=str(PAGE)))
        by_default = migrate.state(plain)

    assert 1 == done.returncode
    assert NO_TLS in done.stderr
    assert (None, migrate.head()) == by_default


def test_a_worker_waits_for_the_right_server(
    place: Place, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Its connections end and it reaches a wrong server: it logs why, claims nothing, and resumes on the right one."""
    with worker(place.url(), tmp_path / "log") as process:
        eventually(lambda: process.has_logged("worker started"), "it serves")
        place.shows("another authority")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'orchestrator %'"
        )
        eventually(lambda: REFUSALS["another authority"] in process.log, "it says why")
        connection.execute("SELECT orchestrator.enqueue('shop.add', '{\"first\": 1, \"second\": 2}')")
        place.shows("the good one")
        eventually(lambda: one(connection, "SELECT count(*) FROM orchestrator.tasks_done") == 1, "it goes on")

    assert [] == in_plaintext(place.server)


def test_the_search_would_find_a_connection_in_plaintext(
    place: Place, connection: psycopg.Connection
) -> None:
    """With sslmode=disable jane connects in plaintext, and the server's log shows it."""
    psycopg.connect(place.url(sslmode="disable")).close()

    seen = in_plaintext(place.server)

    assert 1 == len(seen)
    sys.stdout.write(seen[0])
