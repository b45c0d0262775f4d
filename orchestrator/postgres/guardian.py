"""Wait until nobody uses an embedded server any more, then stop it.

A small process of its own, started together with the server by `embedded`, whose essay tells the whole
protocol. It is run as a script with nothing but the standard library, so that it starts in 0.02 s and needs
no memory to speak of.

It stops the server by the postmaster's own signals, which is what `pg_ctl stop` sends, and not by that
program: the wheel may have been upgraded or removed meanwhile. It sends them only while server.lock shows
that a server lives, and only to a process that stands in the cluster's directory: a pid alone may be stale
and belong to anybody.
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
"""A fast stop writes a checkpoint; after this long that is left to the next start's recovery."""

IMMEDIATE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What postmaster.pid says of a server; it may be stale."""

    pid: int
    socket_dir: Path
    port: int


def postmaster(cluster: Path) -> Postmaster | None:
    """Read a cluster's postmaster.pid; None without a whole one of this very cluster."""
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
        pid, directory, port, socket_dir = int(lines[0]), lines[1], int(lines[3]), lines[4]
    except (FileNotFoundError, ValueError, IndexError):
        return None
    # A copy of a running server's directory brings the original's file along.
    return Postmaster(pid, Path(socket_dir), port) if Path(directory) == cluster else None


def main(home: Path, guardian_lock: int, socket_dir: Path) -> None:
    """Leave the caller, who waits for that only; then guard, to the end."""
    # Everybody may be signalled at once (Ctrl-C, a service's stop): the server is stopped after its users,
    # not before.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    users_lock = os.open(home / "users.lock", os.O_RDWR)
    server_lock = os.open(home / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    if os.fork() > 0:
        return

    fcntl.flock(users_lock, fcntl.LOCK_EX)
    # Before the stop: the next user gets its share of users.lock only after it, and must then find no
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
        # Repeated, because a starting server has no postmaster.pid yet; a stopping one takes no notice.
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
