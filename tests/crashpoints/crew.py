"""Workers and producers as processes of their own, each forked from one that has everything loaded.

A fresh interpreter takes longer to come up than a task to live. What is forked here begins at the command line, like
any other, with nothing open: the process that it is forked from connects to nothing, and has one thread.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator import cli
from tests.crashpoints import making, shop
from tests.servers import wait_until

APP = "tests.crashpoints.shop:app"
STOPPED_SECONDS = 30.0

# To start one looks after the ends of all, and of two threads that look for one's only the first is told its code.
FORKING = threading.Lock()
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "pytest"])

assert shop.app.registry  # loaded with this module, like the others


class Player:
    """One process; everything that it says goes to its log. It ends with the process that made it."""

    def __init__(
        self, log: Path, does: Callable[..., None], *words: Any, settings: Mapping[str, str]
    ) -> None:
        self._log = log
        log.touch()
        self._process = FORKS.Process(target=play, args=(str(log), dict(settings), does, words), daemon=True)
        with FORKING:
            self._process.start()

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None
        return pid

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._code() is not None

    @property
    def log(self) -> str:
        """Everything it has said so far."""
        return self._log.read_text(errors="replace")

    def said(self, event: str) -> bool:
        """Tell whether it has logged this event."""
        return f'"event": "{event}"' in self.log

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        if not self.ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, seconds: float = STOPPED_SECONDS) -> int:
        """Wait for its end, and return its exit code; a signal's is negative."""
        wait_until(lambda: self.ended, f"process {self.pid} ends; it has said\n{self.log}", seconds=seconds)
        return self._code() or 0

    def kill(self) -> None:
        """Kill it, if it is still there, and wait for its end."""
        self.signal(signal.SIGKILL)
        self.wait()

    def _code(self) -> int | None:
        with FORKING:
            return self._process.exitcode


def worker(url: str, log: Path, queue: str, settings: Mapping[str, str]) -> Player:
    """Start a worker of the application, as its command does."""
    words = ["worker", APP, "--url", url, "-q", queue, "-c", "4"]
    return Player(log, command, words, settings=settings)


def producer(url: str, log: Path, kind: str, key: str) -> Player:
    """Start a producer that enqueues once."""
    return Player(log, making.produce, kind, url, key, settings={})


# In the new process:


def play(log: str, settings: dict[str, str], does: Callable[..., None], words: tuple[Any, ...]) -> None:
    """Take the log for everything that is said, and the settings for the only ones, and do it."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    for name in [name for name in os.environ if name.startswith("ORCHESTRATOR_")]:
        del os.environ[name]
    os.environ.update(settings)
    does(*words)


def command(words: list[str]) -> None:
    """Be `orchestrator …`."""
    sys.argv = ["orchestrator", *words]
    cli.main()
