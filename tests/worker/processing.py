"""The application of the tests that run handlers in child processes, which import it."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NoReturn

from orchestrator import Backoff, Cancel, Context, Discard, Orchestrator, Retry, Snooze

AT_ONCE = Backoff(base_seconds=0.0, jitter=0.0)

app = Orchestrator()


@app.task(name="process.whoami", executor="process")
def whoami() -> dict[str, Any]:
    """Return the process and thread that run this."""
    return {"pid": os.getpid(), "parent": os.getppid(), "thread": threading.current_thread().name}


@app.task(name="process.end", executor="process", backoff=AT_ONCE, max_attempts=2)
def end(how: str) -> None:
    """End the process."""
    match how:
        case "exit 3":
            os._exit(3)
        case "exit 0":
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "close":
            os.closerange(3, 100)
            threading.Event().wait(60)


@app.task(name="process.hang", executor="process", timeout=0.3, max_attempts=1)
def hang(path: str, hold: bool = False) -> None:
    """Report the pid, and run for ever: with the interpreter's lock held, and with every signal ignored."""
    sleeper = subprocess.Popen(["sleep", "600"])
    write(path, os.getpid(), sleeper.pid)
    if hold:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        ctypes.PyDLL(None).sleep(600)
    threading.Event().wait(600)


@app.task(name="process.fork")
async def fork(path: str) -> None:
    """Leave a copy of the worker's own process, with all its open files."""
    if (pid := os.fork()) == 0:
        signal.pause()
        os._exit(0)
    write(path, pid)


@app.task(name="process.wait", executor="process")
def wait(path: str, gate: str) -> int:
    """Report the pid, and wait for a file."""
    write(path, os.getpid())
    while not Path(gate).exists():
        time.sleep(0.005)
    return os.getpid()


@dataclass
class Item:
    """The type of a payload's value."""

    name: str
    price: float


class Trap:
    """A user's class that must not be built in the worker."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    @classmethod
    def model_validate(cls, value: Any) -> "Trap":
        """As pydantic's."""
        return cls(os.getpid())


@app.task(name="process.typed", executor="process", max_attempts=1)
def typed(item: Item, on: date, at: datetime, trap: Trap) -> list[Any]:
    """Return the types of the arguments."""
    assert type(item) is Item
    return [item, type(on).__name__, at.astimezone(UTC), trap.pid == os.getpid()]


@app.task(name="process.told", executor="process")
def told(context: Context, key: str) -> dict[str, Any]:
    """Return the values that a handler gets from its context."""
    names = ("id", "type", "queue", "attempt", "max_attempts", "lease", "tags", "metadata", "cancelled")
    return {name: getattr(context, name) for name in names}


class Stubborn(Exception):
    """Neither pickles nor unpickles."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.lock = threading.Lock()

    def __reduce__(self) -> NoReturn:
        raise TypeError("no pickle of me")


class Endless(Exception):
    """Its text never ends."""

    def __str__(self) -> str:
        while True:
            time.sleep(0)


@app.task(name="process.throw", executor="process", backoff=AT_ONCE, max_attempts=2)
def throw(what: str, context: Context) -> str:
    """Raise."""
    match what:
        case "Retry" if context.attempt == 1:
            raise Retry("0s", "once more")
        case "Snooze" if not Path(context.metadata["marker"]).exists():
            Path(context.metadata["marker"]).touch()
            raise Snooze(0.001)
        case "Snooze nonsense":
            raise Snooze("later")
        case "Cancel":
            raise Cancel("no longer wanted")
        case "Discard":
            raise Discard("hopeless")
        case "Stubborn":
            raise Stubborn("first", "second")
        case "SystemExit":
            sys.exit(7)
        case "Endless":
            raise Endless
    return f"attempt {context.attempt}"


@app.task(name="process.give", executor="process", max_attempts=1)
def give(what: str) -> object:
    """Return."""
    match what:
        case "ten megabytes":
            return "x" * 10_000_000
        case "a set":
            return {1}
        case "much":
            return "é\n" * 200_000
        case "None":
            return None
    return {"a": [1, 2.5, None, "\U0001f600"]}


@app.task(name="process.environment", executor="process")
def environment() -> dict[str, str]:
    """Return the environment of the child at its start, and its present one."""
    started_with = Path("/proc/self/environ").read_text().split("\0")
    return dict(os.environ) | dict(line.split("=", 1) for line in started_with if "=" in line)


@app.task(name="process.double", executor="process")
def double(n: int) -> int:
    """Return twice as much."""
    return 2 * n


def plain() -> str:
    """A function without a decorator."""
    return "plain"


def write(path: str, *numbers: int) -> None:
    whole = Path(f"{path}.part")
    whole.write_text(" ".join(map(str, numbers)))
    whole.rename(path)
