"""A worker that starts while its server does not answer waits for it; it reports a refusal at once."""

import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from orchestrator.postgres import embedded_folder
from tests import servers
from tests.patience import eventually
from tests.tiers import long
from tests.worker.processes import worker

PROCESSES = pytest.mark.parametrize("processes", ["1", "2"])


@pytest.fixture
def server() -> Iterator[servers.Server]:
    """A server of the test's own, with the schema, that is not running."""
    with servers.private(embedded_folder.binaries()) as server:
        server.stop("fast")
        yield server


@PROCESSES
def test_a_worker_waits_for_a_server_that_is_away(
    server: servers.Server, tmp_path: Path, processes: str
) -> None:
    """It reports that, and serves as soon as the server answers. With --processes the first child waits for all."""
    with worker(server.url(), tmp_path / "log", "-p", processes) as process:
        eventually(lambda: process.has_logged("server awaited"), "it waits")
        server.start()
        eventually(lambda: process.log.count('"worker started"') == int(processes), "all serve")
        process.signal(signal.SIGTERM)
        assert 0 == process.wait(), process.log

    assert not process.has_logged("child died")


@PROCESSES
def test_the_wait_has_a_limit(server: servers.Server, tmp_path: Path, processes: str) -> None:
    """Then one sentence says what it waited for, and for how long."""
    limit = {"ORCHESTRATOR_START_WAIT_SECONDS": "0.5"}
    with worker(server.url(), tmp_path / "log", "-p", processes, **limit) as process:
        assert 1 == process.wait(), process.log

    assert 1 == process.log.count("error: cannot connect to 127.0.0.1")
    assert "the worker has waited 0.5 s for it (start_wait_seconds)" in process.log
    assert 1 == process.log.count('"server awaited"')
    assert "Traceback" not in process.log


@pytest.mark.parametrize(
    ("processes", "number"),
    [("1", signal.SIGTERM), ("2", signal.SIGINT), long("1", signal.SIGINT), long("2", signal.SIGTERM)],
)
def test_a_worker_that_waits_can_be_stopped(
    server: servers.Server, tmp_path: Path, processes: str, number: signal.Signals
) -> None:
    """Cleanly: it has no task to finish."""
    with worker(server.url(), tmp_path / "log", "-p", processes) as process:
        eventually(lambda: process.has_logged("server awaited"), "it waits")
        process.signal(number)
        assert 0 == process.wait(), process.log

    assert "Traceback" not in process.log
    assert not process.has_logged("child died")


@PROCESSES
@pytest.mark.parametrize("part", ["user", "dbname"])
def test_a_refusal_of_the_server_is_reported_at_once(
    database_url: str, tmp_path: Path, processes: str, part: str
) -> None:
    """The server answers, so a wait would not help."""
    separator = "&" if "?" in database_url else "?"
    url = f"{database_url}{separator}{part}={quote('not-there')}"
    with worker(url, tmp_path / "log", "-p", processes) as process:
        assert 1 == process.wait(), process.log

    assert not process.has_logged("server awaited")
    assert 1 == process.log.count("error: cannot connect to")
    assert "not-there" in process.log


def test_a_wrong_password_is_reported_at_once(server: servers.Server, tmp_path: Path) -> None:
    """And the password is not printed."""
    with psycopg.connect(server.start().url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE jane LOGIN PASSWORD 'right'")
    hba = server.cluster / "pg_hba.conf"
    hba.write_text("host all jane 127.0.0.1/32 scram-sha-256\n" + hba.read_text())
    server.stop("fast")
    server.start()
    url = f"postgresql://jane:hunter2@127.0.0.1:{server.port}/postgres"
    with worker(url, tmp_path / "log") as process:
        assert 1 == process.wait(), process.log

    assert not process.has_logged("server awaited")
    assert 'password authentication failed for user "jane"' in process.log
    assert "hunter2" not in process.log
