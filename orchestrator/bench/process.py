"""Processes of the bench's own: they say what they have to say in its folder."""

import subprocess  # nosec B404 # each call says what it starts
from collections.abc import Mapping
from pathlib import Path

from orchestrator.bench.ground import Ground
from orchestrator.demo import crew


def spawn(
    ground: Ground, module: str, *, url: str | None = None, settings: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a module that answers through a pipe."""
    return crew.spawn(module, url=url, log=log_of(ground), settings=settings)


def end(process: subprocess.Popen[bytes]) -> None:
    """End it at once."""
    process.kill()
    process.communicate()


def last_words(ground: Ground) -> str:
    """Return the end of what our processes have said."""
    return crew.last_words(log_of(ground))


def log_of(ground: Ground) -> Path:
    return ground.folder / "processes.log"
