"""The disk is full: a tablespace is on a small file system, and another file takes the rest of the space."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from orchestrator import DatabaseUnavailable, Orchestrator
from orchestrator.postgres import embedded_folder
from orchestrator.schema import migrate
from tests import servers
from tests.recovery.environment import Environment, environment, lines
from tests.worker.processes import QUICK, Process

SIZE = "32m"
TASKS = 200
DUE, DUE_IN_SECONDS = 2000, 1.5
FILLER_BYTES = 6000
LOG_LINES_MAX = 12
# No worker should be declared dead because its beats cannot be written.
SETTINGS = {**QUICK, "ORCHESTRATOR_DEAD_AFTER_SECONDS": "60"}


class Disk:
    """A small file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Fill the disk completely."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                # Ends when the disk is full.
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def empty(self) -> None:
        """Free the space."""
        self._ballast.unlink()


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A small file system, mounted for this test only."""
    with servers.temporary_directory() as directory:
        path = directory / "disk"
        path.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0755", "orchestrator-test", str(path)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            pytest.skip("a small file system can be mounted by root alone")
        try:
            directory.chmod(0o755)
            yield Disk(path)
        finally:
            subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture
def here(disk: Disk, tmp_path: Path) -> Iterator[Environment]:
    """A database on that disk, on a server whose log and temporary files lie elsewhere."""
    with servers.private(embedded_folder.binaries(), migrated=False) as server:
        space = disk.path / "space"
        embedded_folder.make_private(space, embedded_folder.account())
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{space}'".encode())
            connection.execute("CREATE DATABASE small TABLESPACE small")
        migrate.upgrade(server.url("small"))
        with environment(server.url("small"), tmp_path, SETTINGS) as made:
            yield made


def test_a_full_disk_fails_the_enqueue_stops_the_claims_and_heals(disk: Disk, here: Environment) -> None:
    """Acknowledged tasks run once when there is space again. Refused tasks do not exist, and the caller gets an
    error: that of PostgreSQL in SQL, ours in Python. The worker stays alive, and does not fill the log."""
    worker = here.hire()
    here.results(here.enqueue("drill.stamp", TASKS))
    app = Orchestrator(here.url)

    acknowledged = here.enqueue("drill.stamp", DUE, delay=DUE_IN_SECONDS)
    disk.fill()
    in_sql, _ = enqueue_until(
        psycopg.errors.DiskFull,
        lambda: here.ask(
            "SELECT orchestrator.enqueue('drill.stamp', '{}', metadata => jsonb_build_object('filler', %s::text))",
            filler(),
        )[0][0],
    )
    in_python, words = enqueue_until(
        DatabaseUnavailable, lambda: app.enqueue("drill.stamp", {}, metadata={"filler": filler()}).id
    )
    acknowledged += in_sql + in_python
    here.until(lambda: disk_full_lines(worker), "it finds no space to claim", of=worker)
    stuck = len(acknowledged) - here.statuses(acknowledged).get("completed", 0)
    app.close()

    disk.empty()
    here.results(acknowledged)
    here.results(here.enqueue("drill.stamp", TASKS))

    assert stuck
    assert "nothing was enqueued" in words
    assert disk_full_lines(worker) <= LOG_LINES_MAX, worker.log
    assert {(1, 0)} == set(here.losses(acknowledged))
    assert [(2 * TASKS + len(acknowledged),)] == here.ask("SELECT count(*) FROM orchestrator.tasks")


def disk_full_lines(worker: Process) -> int:
    """Count its log lines about the full disk."""
    return sum("could not extend" in str(line) for line in lines(worker))


def enqueue_until(refused: type[Exception], enqueue: Callable[[], int]) -> tuple[list[int], str]:
    """Enqueue until it is refused. Return the acknowledged ids, and the message of the error."""
    ids: list[int] = []
    # Ends when the disk is full.
    while True:
        try:
            ids.append(enqueue())
        except refused as error:
            return ids, str(error)


def filler() -> str:
    """Return text that compression does not make smaller."""
    return os.urandom(FILLER_BYTES // 2).hex()
