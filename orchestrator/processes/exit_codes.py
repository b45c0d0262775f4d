"""The exit codes of a worker process. Our parent process, or another supervisor, acts on them."""

import signal

DONE = 0
FAILED = 1

WORN_OUT_CODE = 75
"""The handlers of too many tasks went on after their timeouts (`leaked_threads_max`): the worker stopped cleanly, and
has to be started again at once. EX_TEMPFAIL of sysexits.h: a temporary condition, try again."""

CLEAN = (DONE, WORN_OUT_CODE)
"""The exit codes of a clean stop. A handler can end the process with the same ones, so a child also announces its clean
stop to its parent."""

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that ask the process to end."""


def fault(status: int) -> int:
    """Return the exit code for the end of a child; `status` is subprocess's: -n for a death by signal n.

    A death by a stop signal is no fault, even before the worker can handle the signal.
    """
    if status == WORN_OUT_CODE or -status in STOPPING:
        return DONE
    return 128 - status if status < 0 else status


def describe(status: int) -> str:
    """Describe an end in words."""
    if status >= 0:
        return f"exit code {status}" + (" (worn out)" if status == WORN_OUT_CODE else "")
    try:
        return f"signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"signal {-status}"
