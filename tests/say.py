"""Print a line at once: the commands of the tests are watched while they run."""

import sys


def say(line: str) -> None:
    """Print the line."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
