"""The disk is full: a tablespace on a small file system, and a file of ours that takes the rest of it."""

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
# Nobody is to be declared dead for beats that find no room.
SETTINGS = {**QUICK, "ORCHESTRATOR_DEAD_AFTER_SECONDS": "60"}


class Disk:
    """A small file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave no room at all."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                # Ends: there is no room any more.
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def empty(self) -> None:
        """Give the room back."""
        self._ballast.unlink()


@pytest.fixture
def disk() -> Iterator[Disk]:
    """Mounted for this test alone."""
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
    """What was acknowledged is done when there is room again, once; what was refused is not there, and was said to be
    refused, in the caller's transaction and by our own error. The worker lives, and does not fill the log."""
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
    here.until(lambda: said(worker), "it finds no room to claim", of=worker)
    stuck = len(acknowledged) - here.statuses(acknowledged).get("completed", 0)
    app.close()

    disk.empty()
    here.results(acknowledged)
    here.results(here.enqueue("drill.stamp", TASKS))

    assert stuck
    assert "nothing was enqueued" in words
    assert said(worker) <= LOG_LINES_MAX, worker.log
    assert {(1, 0)} == set(here.losses(acknowledged))
    assert [(2 * TASKS + len(acknowledged),)] == here.ask("SELECT count(*) FROM orchestrator.tasks")


def said(worker: Process) -> int:
    """Count the lines in which it says that there is no room."""
    return sum("could not extend" in str(line) for line in lines(worker))


def enqueue_until(refused: type[Exception], enqueue: Callable[[], int]) -> tuple[list[int], str]:
    """Enqueue until that is refused; return what was acknowledged, and the words."""
    ids: list[int] = []
    # Ends: nothing gives room back.
    while True:
        try:
            ids.append(enqueue())
        except refused as error:
            return ids, str(error)


def filler() -> str:
    """Return what no compression makes small."""
    return os.urandom(FILLER_BYTES // 2).hex()
