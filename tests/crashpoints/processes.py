"""Workers and producers, each in a new process. A worker starts with its command line."""

from collections.abc import Mapping
from pathlib import Path

from tests.crashpoints import producer_process
from tests.forked import command_line
from tests.worker.processes import Process, begin, surroundings

APP = "tests.crashpoints.tasks:app"


def worker(url: str, log: Path, queue: str, settings: Mapping[str, str]) -> Process:
    """Start a worker of the application, with its command."""
    words = ["worker", APP, "--url", url, "-q", queue, "-c", "4"]
    return begin(command_line, *words, log=log, env=surroundings(None, **settings))


def producer(url: str, log: Path, kind: str, key: str) -> Process:
    """Start a producer that enqueues once."""
    return begin(producer_process.produce, kind, url, key, log=log, env=surroundings(None))
