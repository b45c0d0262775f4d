"""Measure the cost of work: the CPU time of processes and the bytes of WAL.

CPU time comes from the kernel. The clock of a living process is exact to the nanosecond. The time of ended children is
part of their parent's /proc/PID/stat, in hundredths of a second.

The server's processes are the postmaster, which is the parent of our own backend, and its children. The pid of our
backend may belong to another process if the server runs on another host. So the title of that process must name the
scratch database. On another host, in another container or without Linux, the server's CPU time is not known.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from orchestrator.postgres import statement

WAL = statement.load(__file__, "wal.sql")
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of something."""

    client_seconds: float | None
    server_seconds: float | None
    wal_bytes: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of the meters at one moment."""

    client_seconds: float | None
    server_seconds: float | None
    wal_bytes: int


class Meter:
    """Reads the meters of one server, on the caller's connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._postmaster = postmaster_of(connection)

    def read(self, clients: Iterable[int]) -> Reading:
        """Read the meters. `clients` are our processes that do the work; their children are included."""
        row = self._connection.execute(WAL).fetchone()
        if row is None:
            raise AssertionError("a SELECT without FROM has one row")
        server = None if self._postmaster is None else cpu_seconds([self._postmaster])
        return Reading(cpu_seconds(clients), server, int(row[0]))

    def since(self, before: Reading, clients: Iterable[int]) -> Spent:
        """Return the cost since a reading."""
        now = self.read(clients)
        return Spent(
            difference(before.client_seconds, now.client_seconds),
            difference(before.server_seconds, now.server_seconds),
            now.wal_bytes - before.wal_bytes,
        )


def difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else max(0.0, after - before)


def postmaster_of(connection: psycopg.Connection[Any]) -> int | None:
    """Return the pid of the postmaster, or None if its process is not visible here."""
    backend = connection.info.backend_pid
    try:
        title = (PROC / str(backend) / "cmdline").read_bytes()
        parent = int(fields(backend)[1])
    except (OSError, ValueError, IndexError):
        return None
    return parent if connection.info.dbname.encode() in title and parent > 1 else None


def cpu_seconds(roots: Iterable[int]) -> float | None:
    """Return the CPU time of these processes and of all their descendants, ended ones included."""
    if not PROC.joinpath("self").exists():
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for pid in process_tree(set(roots)):
        try:
            total += time.clock_gettime(
                (~pid << 3) | 2
            )  # the id that clock_getcpuclockid(3) returns for a pid
            total += sum(int(n) for n in fields(pid)[13:15]) / ticks
        except (OSError, IndexError):
            continue  # It has just ended; its time is now part of its parent's.
    return total


def process_tree(roots: set[int]) -> set[int]:
    """Return these processes and all their descendants."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                children.setdefault(int(fields(int(entry.name))[1]), []).append(int(entry.name))
            except (OSError, IndexError):
                continue
    found, new = set[int](), roots
    # Ends: each turn goes one generation down, and no process is added twice.
    while new:
        found |= new
        new = {child for pid in new for child in children.get(pid, [])} - found
    return found


def resident_megabytes(roots: Iterable[int]) -> float | None:
    """Return the resident memory of these processes and their descendants, or None without /proc."""
    if not PROC.joinpath("self").exists():
        return None
    pages = 0
    for pid in process_tree(set(roots)):
        try:
            pages += int((PROC / str(pid) / "statm").read_text().split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: state, parent, …. The name may contain any character."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
