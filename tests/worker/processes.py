"""Run `orchestrator …` as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
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
    """Return a command line with the module of this repository."""
    return [sys.executable, "-m", "orchestrator", *words]


def surroundings(url: str | None, **more: str) -> dict[str, str]:
    """Return an environment with these settings of ours and no others."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ORCHESTRATOR_")}
    return kept | ({"ORCHESTRATOR_DATABASE_URL": url} if url is not None else {}) | more


def start(
    *words: str,
    env: Mapping[str, str],
    out: Path,
    err: Path | None = None,
    cwd: Path = REPOSITORY,
) -> Forked:
    """Start a command in the background. Its output goes to files."""
    return Forked(Birth(env, cwd, Path(os.devnull), out, err or out), command_line, *words)


def run(
    *words: str, url: str | None = None, cwd: Path = REPOSITORY, given: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return ran(command_line, *words, env=surroundings(url, **more), cwd=cwd, given=given)


def ran(
    does: Callable[..., object], *words: str, env: Mapping[str, str], cwd: Path = REPOSITORY, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a function with these words to its end, in a process."""
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
    """A process that runs beside the test; all that it says goes to its log."""

    def __init__(self, popen: Forked | subprocess.Popen[bytes], log: Path) -> None:
        self.popen = popen
        self._log = log

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.popen.poll() is not None

    @property
    def log(self) -> str:
        """Its output so far."""
        return self._log.read_text(errors="replace")

    def events(self) -> list[dict[str, Any]]:
        """Return its log as objects, one per line."""
        return [json.loads(line) for line in self.log.splitlines()]

    def has_logged(self, event: str) -> bool:
        """Return whether it has logged this event."""
        return f'"event": "{event}"' in self.log

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.popen.send_signal(number)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait for its end, and return its exit code; a signal's is negative."""
        return self.popen.wait(seconds)

    def kill(self) -> None:
        """Kill it if it still runs, and wait for its end."""
        with suppress(ProcessLookupError):
            self.popen.kill()
        self.popen.wait()


def begin(does: Callable[..., object], *words: Any, log: Path, env: Mapping[str, str]) -> Process:
    """Start a function beside the test, as a process."""
    log.write_bytes(b"")
    return Process(Forked(Birth(env, REPOSITORY, Path(os.devnull), log, log), does, *words), log)


def begin_worker(
    url: str,
    log: Path,
    *words: str,
    settings: Mapping[str, str],
    app: str = "tests.worker.tasks:app",
    fresh: bool = False,
) -> Process:
    """Start a worker beside the test. `fresh`: in a new interpreter (0.5 s of CPU)."""
    words, env = ("worker", app, *words), surroundings(url, **settings)
    if not fresh:
        return begin(command_line, *words, log=log, env=env)
    with log.open("wb") as file:
        popen = subprocess.Popen(
            command(*words), env=env, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    return Process(popen, log)


@contextmanager
def worker(
    url: str, log: Path, *words: str, app: str = "tests.worker.tasks:app", **settings: str
) -> Iterator[Process]:
    """Run a worker process during the block. Kill it afterwards if it still runs."""
    process = begin_worker(url, log, *words, settings={**QUICK, **settings}, app=app)
    try:
        yield process
    finally:
        process.kill()
