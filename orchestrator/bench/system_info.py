"""Where and when a run was measured. A figure has no meaning without that."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from orchestrator.postgres import statement
from orchestrator.version import __version__

SETTINGS = statement.load(__file__, "system_info.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemInfo:
    """The machine, the server, the versions, the time."""

    at: str
    sizes: str
    orchestrator: str
    python: str
    psycopg: str
    system: str
    processor: str
    cores: int
    server_version: str
    server_settings: Mapping[str, str]


def system_info_of(connection: psycopg.Connection[Any], sizes: str) -> SystemInfo:
    """Collect the facts about this machine and its server."""
    return SystemInfo(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        sizes=sizes,
        orchestrator=__version__,
        python=platform.python_version(),
        psycopg=f"{psycopg.__version__} ({psycopg.pq.__impl__})",
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=processor(),
        cores=cores(),
        server_version=str(connection.info.parameter_status("server_version")),
        server_settings=dict(connection.execute(SETTINGS).fetchall()),
    )


def cores() -> int:
    """Return how many cores this process may use. In a container that can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """Return the name of the processor, or what the system knows of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
