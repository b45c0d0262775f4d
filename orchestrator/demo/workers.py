"""Worker processes of the demo and of the bench: `orchestrator worker`, which ends with the process that starts it.

A pipe ties each worker to that process (`exit_with_parent`). Ctrl-C reaches only that process, which then stops the
workers. The workers do not get the ORCHESTRATOR_ variables of the environment, because those are for the user's own
workers and database.
"""

import asyncio
import os
import subprocess  # nosec B404 # each call says what it starts
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.config import PREFIX
from orchestrator.errors import OrchestratorError

GRACE_SECONDS = 1
# A worker needs no longer than this after its grace if the database answers.
STOP_SECONDS = 5.0
LOOK_EVERY_SECONDS = 0.01
LOG_TAIL_CHARACTERS = 1000


class WorkerEnded(OrchestratorError):
    """A worker ended on its own."""


class Workers:
    """Worker processes with one log."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        size: int,
        log: Path,
        url: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._words = words
        self._url = url
        self._size = size
        self._log = log
        self._settings = settings
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all workers. They serve a moment later."""
        for _ in range(self._size):
            started = spawn(
                "orchestrator.demo.exit_with_parent", "worker", *self._words,
                url=self._url, log=self._log, answers=False, settings=self._settings,
            )  # fmt: skip
            self._processes.append(started)

    @property
    def pids(self) -> list[int]:
        """The pids of the workers, without their children."""
        return [process.pid for process in self._processes]

    def check(self) -> None:
        """Raise an error if a worker has ended."""
        for process in self._processes:
            if (status := process.poll()) is not None:
                raise WorkerEnded(
                    f"a worker ended with status {status}; {self._log} ends with\n{last_output(self._log)}"
                )

    async def stop(self) -> None:
        """Stop all workers, and return when they have ended."""
        self.terminate()
        deadline = time.monotonic() + GRACE_SECONDS + STOP_SECONDS
        while self.is_there():
            if time.monotonic() > deadline:
                self.kill()
            await asyncio.sleep(LOOK_EVERY_SECONDS)
        self.close()

    def terminate(self) -> None:
        """Send SIGTERM to all workers."""
        for process in self._processes:
            process.terminate()

    def is_there(self) -> bool:
        """Return whether any worker has not ended."""
        return any(process.poll() is None for process in self._processes)

    def kill(self) -> None:
        """Kill all workers."""
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        """Kill the remaining workers, and close the pipes."""
        self.kill()
        for process in self._processes:
            process.communicate()


@contextmanager
def spawned(
    module: str, *, log: Path, url: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module that answers through a pipe, for the block."""
    process = spawn(module, log=log, url=url, settings=settings)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def spawn(
    module: str,
    *words: str,
    log: Path,
    url: str | None = None,
    answers: bool = True,
    settings: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a module with a pipe to its standard input; the pipe closes when this process ends. With `answers` its
    standard output is a pipe, too; everything else goes to a log. The URL is passed in the environment, because every
    user of the machine can read a command line."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    environment |= settings or {}
    if url is not None:
        environment[f"{PREFIX}DATABASE_URL"] = url
    with log.open("ab") as file:
        return subprocess.Popen(  # nosec B603 # noqa: S603 - our own command, run by this very interpreter
            [sys.executable, "-P", "-m", module, *words], env=environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE if answers else file, stderr=file,
        )  # fmt: skip


def last_output(log: Path) -> str:
    """Return the end of a log."""
    return log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:].strip() if log.exists() else ""
