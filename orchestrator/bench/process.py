"""The bench's own processes. Their output goes to a log in the bench's folder."""

import subprocess  # nosec B404 # each call says what it starts
from collections.abc import Mapping
from pathlib import Path

from orchestrator.bench.environment import Environment
from orchestrator.demo import workers


def spawn(
    environment: Environment,
    module: str,
    *,
    url: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a module that answers through a pipe."""
    return workers.spawn(module, url=url, log=log_of(environment), settings=settings)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and wait for its end."""
    process.kill()
    process.communicate()


def last_output(environment: Environment) -> str:
    """Return the end of the processes' log."""
    return workers.last_output(log_of(environment))


def log_of(environment: Environment) -> Path:
    return environment.folder / "processes.log"
