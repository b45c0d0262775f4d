"""Run `orchestrator …` as a process of its own, as a person would."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.forked import REPOSITORY, Birth, Forked, command_line
from tests.patience import PATIENCE_SECONDS

# Long enough for a busy machine, short enough for a test.
QUICK = {
    "ORCHESTRATOR_POLL_SECONDS": "0.2",
    "ORCHESTRATOR_HEARTBEAT_SECONDS": "0.2",
    "ORCHESTRATOR_DEAD_AFTER_SECONDS": "1",
    "ORCHESTRATOR_TERM_SECONDS": "1",
}


def command(*words: str) -> list[str]:
    """Return a command line: the module's, so that it is this repository's code that runs."""
    return [sys.executable, "-m", "orchestrator", *words]


def surroundings(url: str | None, **more: str) -> dict[str, str]:
    """Return an environment without any setting of ours but these."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ORCHESTRATOR_")}
    return kept | ({"ORCHESTRATOR_DATABASE_URL": url} if url is not None else {}) | more


def start(
    *words: str,
    env: Mapping[str, str],
    out: Path,
    err: Path | None = None,
    cwd: Path = REPOSITORY,
    does: Callable[..., object] = command_line,
) -> Forked:
    """Start a command beside the test; what it prints is added to files."""
    return Forked(Birth(env, cwd, Path(os.devnull), out, err or out), does, *words)


def run(
    *words: str, url: str | None = None, cwd: Path = REPOSITORY, given: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return ran(command_line, *words, env=surroundings(url, **more), cwd=cwd, given=given)


def ran(
    does: Callable[..., object], *words: str, env: Mapping[str, str], cwd: Path = REPOSITORY, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a function with these words to its end, as a process."""
    with tempfile.TemporaryDirectory() as directory:
        stdin, out, err = files = [Path(directory) / name for name in ("in", "out", "err")]
        for file in files:
            file.write_text(given if file is stdin else "")
        process = Forked(Birth(env, cwd, stdin, out, err), does, *words)
        try:
            process.wait(PATIENCE_SECONDS)
        finally:
            process.end()
        return subprocess.CompletedProcess(words, process.wait(), out.read_text(), err.read_text())


class Process:
    """A worker that runs beside the test; its log goes to a file. `fresh`: in a new interpreter (0.5 s of CPU). `does`:
    what another process does in place of the command line."""

    def __init__(
        self,
        url: str,
        log: Path,
        *words: str,
        settings: Mapping[str, str],
        app: str = "tests.worker.tasks:app",
        fresh: bool = False,
        does: Callable[..., object] = command_line,
    ) -> None:
        self._log = log
        words, env = ("worker", app, *words), surroundings(url, **settings)
        self.popen: Forked | subprocess.Popen[bytes]
        with log.open("wb") as file:
            if fresh:
                self.popen = subprocess.Popen(
                    command(*words),
                    env=env,
                    cwd=REPOSITORY,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                )
            else:
                self.popen = start(*words, env=env, out=log, does=does)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def log(self) -> str:
        """Everything it has said so far."""
        return self._log.read_text()

    def events(self) -> list[dict[str, Any]]:
        """Return its log as objects, one a line."""
        return [json.loads(line) for line in self.log.splitlines()]

    def said(self, event: str) -> bool:
        """Tell whether it has logged this event."""
        return f'"event": "{event}"' in self.log

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.popen.send_signal(number)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait for its end, and return its exit code."""
        return self.popen.wait(seconds)

    def kill(self) -> None:
        """Kill it, if it is still there, and wait for its end."""
        with suppress(ProcessLookupError):
            self.popen.kill()
        self.popen.wait()


@contextmanager
def worker(
    url: str, log: Path, *words: str, app: str = "tests.worker.tasks:app", **settings: str
) -> Iterator[Process]:
    """Run a worker process beside the block; kill it afterwards if it is still there."""
    process = Process(url, log, *words, settings={**QUICK, **settings}, app=app)
    try:
        yield process
    finally:
        process.kill()


def eventually(holds: Callable[[], object], what: str, *, seconds: float = PATIENCE_SECONDS) -> None:
    """Return as soon as a condition holds; fail with its description when it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)
