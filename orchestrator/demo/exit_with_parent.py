"""Run the command `orchestrator` for as long as standard input stays open: a process that ends with its parent.

No signal reaches a child when its parent is killed, but the kernel closes the parent's end of the pipe.
"""

import os
import runpy
import signal
import sys
import threading


def exit_with_parent() -> None:
    """Wait for the end of standard input, then stop as if told to."""
    # Ends: the parent writes nothing, so the first thing to come is the end.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=exit_with_parent, name="exit with parent", daemon=True).start()
    runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
