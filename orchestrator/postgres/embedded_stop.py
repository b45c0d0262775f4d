"""Stop using an embedded server, and wait for its end: for a command that promises to leave nothing running.

Without this module the server ends too, a moment after its last user (see `embedded`). The guardian stops the server;
this module only reads the locks:

    guardian.lock taken    the guardian waits for other users, or has not noticed yet that there are none
    users.lock taken       the guardian stops the server; it holds this lock until it exits
    server.lock taken      the server or a child of it lives

They are read in this order, because the guardian moves from the first to the second: when both are free, it is gone.
"""

import fcntl
import time
from pathlib import Path

from orchestrator.postgres import embedded

STOP_SECONDS = 10.0
"""A fast stop writes a checkpoint, 0.1 s after a demo. After this long the stop goes on without our waiting."""

NOTICE_SECONDS = 0.5
"""The kernel wakes the guardian at once. After this long it has released guardian.lock, or others use the server."""


def leave(url: str) -> bool:
    """Stop using the server of an embedded: URL, and wait for its end. Return whether it is gone; True for other
    URLs."""
    if not url.startswith("embedded:"):
        return True
    home = Path(url.removeprefix("embedded:")).expanduser().resolve()
    embedded.release(home)
    began = time.monotonic()
    while not all(is_free(home / name) for name in ("guardian.lock", "users.lock", "server.lock")):
        waited = time.monotonic() - began
        if waited > STOP_SECONDS or (waited > NOTICE_SECONDS and not is_free(home / "guardian.lock")):
            return False
        time.sleep(0.01)
    return True


def is_free(lock: Path) -> bool:
    """Return whether a lock is free. A lock file that does not exist is free."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True
