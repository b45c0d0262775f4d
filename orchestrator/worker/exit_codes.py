"""How a worker process ends, in one number; the supervisor above it, ours or somebody else's, acts upon it."""

import signal

DONE = 0
FAILED = 1

WORN_OUT_CODE = 75
"""The handlers of too many tasks went on after their timeouts (`leaked_threads_max`): stopped cleanly, to be started
anew, at once. EX_TEMPFAIL of sysexits.h: not a failure, but come again."""

CLEAN = (DONE, WORN_OUT_CODE)
"""The exit codes of a clean stop. A handler can end the process with the same ones, so a child also announces its clean
stop to its parent."""

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that mean: come to an end."""


def fault(status: int) -> int:
    """Return what an end is worth in an exit code; `status` as subprocess tells it, -n for a death by signal n.

    To end when told to is no fault, even before the worker could say anything about it.
    """
    if status == WORN_OUT_CODE or -status in STOPPING:
        return DONE
    return 128 - status if status < 0 else status


def describe(status: int) -> str:
    """Name an end for people."""
    if status >= 0:
        return f"exit code {status}" + (" (worn out)" if status == WORN_OUT_CODE else "")
    try:
        return f"signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"signal {-status}"
