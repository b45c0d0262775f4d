"""The resources of a process at one moment: memory, threads, open files, and the sockets among them.

A connection to the server is one socket in its process, with or without a proxy. A session that stays in the server
after its connection was cut is not counted.
"""

import os
import time
from pathlib import Path
from typing import Any

from tests.chaos.fleet import Hired


def sample(hired: Hired) -> list[Any] | None:
    """Return a line of the samples; None for a process that has ended meanwhile, or is a zombie."""
    place = Path(f"/proc/{hired.pid}")
    try:
        status = (place / "status").read_text()
        found = dict(line.split(":", 1) for line in status.splitlines())
        mib = int(found["VmRSS"].split()[0]) / 1024
        files = list((place / "fd").iterdir())
        sockets = sum(leads_to(file).startswith("socket:") for file in files)
    except (OSError, KeyError):
        return None
    return [time.time(), hired.who, mib, int(found["Threads"]), len(files), sockets]


def leads_to(file: Path) -> str:
    try:
        return os.readlink(file)
    except FileNotFoundError:
        # Closed meanwhile.
        return ""
