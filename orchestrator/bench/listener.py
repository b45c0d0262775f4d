"""The floor's listener process. It writes a line to standard output when it is ready, and ends with its parent."""

import os
import sys
import threading

from orchestrator.bench import floors
from orchestrator.config import PREFIX
from orchestrator.demo.exit_with_parent import exit_with_parent


def ready() -> None:
    """Write the line that our parent waits for."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    threading.Thread(target=exit_with_parent, name="exit with parent", daemon=True).start()
    floors.listen(os.environ[f"{PREFIX}DATABASE_URL"], ready=ready)
