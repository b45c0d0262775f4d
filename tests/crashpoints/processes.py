"""Workers and producers as processes of their own. They start with the command line, without open connections."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.crashpoints import producer_process
from tests.forked import REPOSITORY, Birth, Forked, command_line
from tests.worker.processes import surroundings

APP = "tests.crashpoints.tasks:app"
STOPPED_SECONDS = 30.0


class Process:
    """One process; everything that it says goes to its log."""

    def __init__(
        self, log: Path, does: Callable[..., None], *words: Any, settings: Mapping[str, str]
    ) -> None:
        self._log = log
        birth = Birth(surroundings(None, **settings), REPOSITORY, Path(os.devnull), log, log)
        log.touch()
        self._process = Forked(birth, does, *words)
        self.pid = self._process.pid
        self.signal, self.kill = self._process.send_signal, self._process.end

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._process.poll() is not None

    @property
    def log(self) -> str:
        """Its output so far."""
        return self._log.read_text(errors="replace")

    def has_logged(self, event: str) -> bool:
        """Return whether it has logged this event."""
        return f'"event": "{event}"' in self.log

    def wait(self) -> int:
        """Wait for its end, and return its exit code; a signal's is negative."""
        return self._process.wait(STOPPED_SECONDS)


def worker(url: str, log: Path, queue: str, settings: Mapping[str, str]) -> Process:
    """Start a worker of the application, as its command does."""
    words = ["worker", APP, "--url", url, "-q", queue, "-c", "4"]
    return Process(log, command_line, *words, settings=settings)


def producer(url: str, log: Path, kind: str, key: str) -> Process:
    """Start a producer that enqueues once."""
    return Process(log, producer_process.produce, kind, url, key, settings={})
