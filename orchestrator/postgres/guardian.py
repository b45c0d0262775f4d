"""Wait until no process uses an embedded server, then stop it.

The guardian is a small process. `embedded` starts it together with the server; the essay there describes the whole
protocol. It runs as a script that needs only the standard library, so it starts in 0.02 s and needs hardly any memory.

It stops the server with the signals that `pg_ctl stop` sends, but not with that program: the wheel may have been
upgraded or removed meanwhile. It sends a signal only while server.lock shows that a server lives, and only to a process
whose current directory is the cluster's: a pid alone may be stale and belong to another process.
"""

import fcntl
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FAST_SECONDS = 60
"""A fast stop writes a checkpoint. After this long the guardian stops the server at once, and the next start
recovers."""

IMMEDIATE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The content of postmaster.pid. It may be stale."""

    pid: int
    socket_dir: Path
    port: int


def postmaster(cluster: Path) -> Postmaster | None:
    """Read a cluster's postmaster.pid. Return None if it is missing, incomplete or of another cluster."""
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
        pid, directory, port, socket_dir = int(lines[0]), lines[1], int(lines[3]), lines[4]
    except (FileNotFoundError, ValueError, IndexError):
        return None
    # A copy of a running server's directory contains the original's file.
    return Postmaster(pid, Path(socket_dir), port) if Path(directory) == cluster else None


def main(home: Path, guardian_lock: int, socket_dir: Path) -> None:
    """Fork, so that the caller continues. Then wait for the last user, and stop the server."""
    # Ctrl-C or a service's stop may signal all processes at once. The server must stop after its users, not before.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    users_lock = os.open(home / "users.lock", os.O_RDWR)
    server_lock = os.open(home / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    if os.fork() > 0:
        return

    fcntl.flock(users_lock, fcntl.LOCK_EX)
    # Released before the stop: the next user gets its share of users.lock after the stop, and must then find no
    # guardian.
    os.close(guardian_lock)
    if not _stopped(home / "cluster", server_lock):
        sys.exit(f"guardian: the server of {home} does not stop; it was left running")
    with suppress(OSError):
        socket_dir.rmdir()


def _stopped(cluster: Path, server_lock: int) -> bool:
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < FAST_SECONDS + IMMEDIATE_SECONDS:
        with suppress(BlockingIOError):
            fcntl.flock(server_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        # Repeated, because a starting server has no postmaster.pid yet. A stopping server ignores the signal.
        _signal(cluster, signal.SIGINT if elapsed < FAST_SECONDS else signal.SIGQUIT)
        time.sleep(0.02)
    return False


def _signal(cluster: Path, number: int) -> None:
    running = postmaster(cluster)
    if running is None:
        return
    with suppress(ProcessLookupError, PermissionError, FileNotFoundError):
        if sys.platform == "linux" and Path(f"/proc/{running.pid}/cwd").readlink() != cluster:
            return
        os.kill(running.pid, number)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
