"""Start `orchestrator …` as a process for a tenth of the CPU: forked from one that has loaded everything.

A new interpreter needs 0.5 s of CPU to load the command line. The fork server of `multiprocessing` loads it once per
pytest process. At each start it forks a child, which sets its environment, folder and files and calls the same `main`.
The fork server has one thread and no connection, so a child shares nothing. The children end with it, and it ends with
pytest.

Only a new interpreter shows which modules are loaded, its own command line, and the effect of variables that Python or
a library reads at its start (`READ_AT_START`). A test of these starts its process with `subprocess`.
"""

import ctypes
import gc
import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from orchestrator import cli

REPOSITORY = Path(__file__).parents[1]
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "FAKETIME", "PROMETHEUS_")
# Children find their own modules below the folder in which they start.
READ_BY_CHILDREN = ("PYTHONPATH",)
PR_SET_PDEATHSIG = 1
LOADED_LATE = (
    "alembic.command", "alembic.op", "alembic.runtime.migration", "concurrent.futures.thread", "logging.config",
    "mako.template", "psycopg_pool", "rich.live", "rich.progress", "sqlalchemy.dialects.postgresql.psycopg",
    "structlog",
)  # fmt: skip

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [__name__, *(each.name for each in pkgutil.iter_modules(cli.__path__, f"{cli.__name__}.")), *LOADED_LATE]
)
# To start a process, multiprocessing asks after the ends of all others, and an end can be read only once.
FORKING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Birth:
    """What a process takes over. The files are paths: of a log, a terminal, /dev/null."""

    env: Mapping[str, str]
    cwd: Path
    stdin: Path
    stdout: Path
    stderr: Path
    # In a session of its own, which the terminal then belongs to.
    leads_session: bool = False


class Forked:
    """A process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, birth: Birth, does: Callable[..., object], *words: Any) -> None:
        refuse_what_is_read_at_start(birth.env)
        self.returncode: int | None = None
        self._process = FORKS.Process(target=live, args=(birth, does, words), daemon=True)
        # The first start is that of the fork server, which finds `tests` in its folder.
        with FORKING, chdir(REPOSITORY):
            self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or nothing while it runs."""
        if self.returncode is None:
            with FORKING:
                self.returncode = self._process.exitcode
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its exit code."""
        if self.returncode is None:
            wait([self._process.sentinel], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """Kill it, if it is still there, and wait for its end."""
        self.kill()
        self.wait()


def refuse_what_is_read_at_start(env: Mapping[str, str]) -> None:
    """Refuse an environment that would have no effect."""
    differ = [
        name
        for name in env.keys() | os.environ.keys()
        if name.startswith(READ_AT_START)
        and name not in READ_BY_CHILDREN
        and env.get(name) != os.environ.get(name)
    ]
    assert not differ, f"{', '.join(sorted(differ))}: read when a process starts; start a fresh one"


# In the new process:


def live(birth: Birth, does: Callable[..., object], words: Sequence[Any]) -> None:
    """Take over everything, and do it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # A collection would write to all that the fork server has loaded, and so copy its memory.
    gc.freeze()
    if birth.leads_session:
        os.setsid()
    for number, path in enumerate((birth.stdin, birth.stdout, birth.stderr)):
        file = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        if file != number:
            os.dup2(file, number)
            os.close(file)
    # Opened anew: a stream keeps what it found out about the file that it was opened on.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for the life of the process
    sys.stdout = open(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)  # noqa: SIM115 - as above
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115 - as above
    os.chdir(birth.cwd)
    os.environ.clear()
    os.environ.update(birth.env)
    time.tzset()
    more = birth.env.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(birth.cwd), *filter(None, more)]
    does(*words)


def command_line(*words: str) -> None:
    """Be `orchestrator WORDS`."""
    sys.argv = ["orchestrator", *words]
    cli.main()
