"""Run the command `orchestrator` until standard input closes, so that the process ends with its parent.

A child gets no signal when its parent is killed. But the kernel closes the parent's end of the pipe.
"""

import os
import runpy
import signal
import sys
import threading


def exit_with_parent() -> None:
    """Wait for the end of standard input, then send SIGTERM to this process."""
    # Ends: the parent writes nothing, so the first read returns at the end of the input.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=exit_with_parent, name="exit with parent", daemon=True).start()
    runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
