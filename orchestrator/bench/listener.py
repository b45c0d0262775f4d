"""The process of the floor that listens: says on standard output that it is ready, and goes on until it is killed."""

import os
import sys

from orchestrator.bench import floors
from orchestrator.config import PREFIX


def ready() -> None:
    """Tell our parent, who waits for a line."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    floors.listen(os.environ[f"{PREFIX}DATABASE_URL"], ready=ready)
