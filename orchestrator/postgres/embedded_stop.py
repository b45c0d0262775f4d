"""Leave an embedded server, and see it gone: for a command that promises to leave nothing running.

Without this the server goes all the same, a moment after its last user (`embedded` tells how). Nothing here stops it;
that is the guardian's, whose locks are only looked at:

    guardian.lock taken    the guardian waits: for others, or has not noticed yet that there are none
    users.lock taken       it stops the server, and holds this one until its own end
    server.lock taken      the server or a child of it is there

They are looked at in this order, in which the guardian changes from the first to the second: both free, it is gone.
"""

import fcntl
import time
from pathlib import Path

from orchestrator.postgres import embedded

STOP_SECONDS = 10.0
"""A fast stop writes a checkpoint, 0.1 s after a demo. Whatever takes longer goes on without being waited for."""

NOTICE_SECONDS = 0.5
"""The kernel wakes the guardian at once; by then it has let guardian.lock go, or others use the server."""


def leave(url: str) -> bool:
    """Stop using the server of an embedded: URL, and wait for its end; tell whether it is gone, or none is meant."""
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
    """Tell whether nobody holds a lock; one that was never made is held by nobody."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True
