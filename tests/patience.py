"""How long a test waits for what must happen, and how."""

import time
from collections.abc import Callable

# Longer than anything takes on a machine that is a third as fast and busy: to wait this long is to fail.
PATIENCE_SECONDS = 90.0


def eventually(
    holds: Callable[[], object], what: str | Callable[[], str], *, seconds: float = PATIENCE_SECONDS
) -> None:
    """Return as soon as a condition holds; fail with its description when it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.01)
