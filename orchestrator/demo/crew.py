"""The demo's workers: processes of `orchestrator worker`, none of which outlives it."""

import asyncio
import os
import subprocess  # nosec B404 # each call says what it starts
import sys
import time
from pathlib import Path

from orchestrator.config import PREFIX
from orchestrator.errors import OrchestratorError

GRACE_SECONDS = 1
# What a worker does after its grace takes no longer, with a database that answers.
STOP_SECONDS = 5.0
LOG_TAIL_CHARACTERS = 1000


class WorkerEnded(OrchestratorError):
    """A worker ended before the demo did."""


class Crew:
    """Worker processes with one log."""

    def __init__(self, url: str, *, size: int, log: Path) -> None:
        self._url = url
        self._size = size
        self._log = log
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start them all; they serve a moment later."""
        command = [
            sys.executable,
            "-P",
            "-m",
            "orchestrator.demo.tether",
            "worker",
            "orchestrator.demo.shop:app",
        ]
        command += ["--url", self._url, "--grace", str(GRACE_SECONDS)]
        # Settings are for the user's own workers, and so is the database that they name.
        environment = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
        with self._log.open("wb") as log:
            for _ in range(self._size):
                started = subprocess.Popen(  # nosec B603 # noqa: S603 - our own command, run by this very interpreter
                    command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment,
                    # Not in the terminal's group: Ctrl-C is for the demo, which then stops them in its own order.
                    start_new_session=True,
                )  # fmt: skip
                self._processes.append(started)

    def check(self) -> None:
        """Raise if one has ended on its own."""
        for process in self._processes:
            if (status := process.poll()) is not None:
                tail = self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:].strip()
                raise WorkerEnded(f"a worker ended with status {status}; {self._log} ends with\n{tail}")

    async def stop(self) -> None:
        """Tell them to stop, and return when they are gone."""
        for process in self._processes:
            process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS + STOP_SECONDS
        while any(process.poll() is None for process in self._processes):
            if time.monotonic() > deadline:
                self.kill()
            await asyncio.sleep(0.01)
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()

    def kill(self) -> None:
        """End them at once."""
        for process in self._processes:
            process.kill()
