"""The process of the floor that listens: says on standard output that it is ready, and goes on for as long as
its parent lives."""

import os
import sys
import threading

from orchestrator.bench import floors
from orchestrator.config import PREFIX
from orchestrator.demo.exit_with_parent import exit_with_parent


def ready() -> None:
    """Tell our parent, who waits for a line."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    threading.Thread(target=exit_with_parent, name="exit with parent", daemon=True).start()
    floors.listen(os.environ[f"{PREFIX}DATABASE_URL"], ready=ready)
