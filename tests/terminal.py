"""A process at a terminal of its own: it gets the terminal's output, and Ctrl-C is the key, not a signal to a pid."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.forked import Birth, Forked, command_line
from tests.patience import PATIENCE_SECONDS, eventually
from tests.worker.processes import surroundings

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
ROWS_AND_COLUMNS = (50, 120)

Process = Forked | subprocess.Popen[bytes]


class AtTerminal:
    """A process, its terminal, and everything that was shown on it. `start` is given the terminal's path."""

    def __init__(self, start: Callable[[Path], Process]) -> None:
        self._screen, self._terminal = pty.openpty()
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *ROWS_AND_COLUMNS, 0, 0))
        self._pieces: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self.popen = start(Path(os.ttyname(self._terminal)))
        self._reader.start()

    @property
    def raw(self) -> str:
        """Everything the terminal was sent so far."""
        return b"".join(self._pieces).decode(errors="replace")

    @property
    def shown(self) -> str:
        """Everything shown so far, colours and movements taken off."""
        return ESCAPES.sub("", self.raw).replace("\r", "")

    def shows(self, text: str) -> None:
        """Return as soon as this is shown."""
        eventually(lambda: text in self.shown or self.popen.poll() is not None, f"{text!r} is shown")
        assert text in self.shown, self.shown

    def types(self, text: str) -> None:
        """Press these keys."""
        os.write(self._screen, text.encode())

    def presses_ctrl_c(self) -> None:
        """Interrupt, as the terminal does: everybody in its foreground."""
        self.types("\x03")

    def ends(self) -> int:
        """Wait for the end, and return the exit status."""
        status = self.popen.wait(PATIENCE_SECONDS)
        self._let_go()
        return status

    def close(self) -> None:
        """See that it is gone."""
        self.popen.kill()
        self.popen.wait()
        self._let_go()
        os.close(self._screen)

    def _let_go(self) -> None:
        # Held until now: a terminal that no process has open counts as closed, also before the first opens it.
        if self._terminal != -1:
            os.close(self._terminal)
            self._terminal = -1
        self._reader.join(PATIENCE_SECONDS)

    def _read(self) -> None:
        # Ends: Linux says EIO when no process has the terminal open any more.
        with suppress(OSError):
            while piece := os.read(self._screen, 65_536):
                self._pieces.append(piece)


@contextmanager
def at_terminal(*words: str, cwd: Path, url: str | None = None, **settings: str) -> Iterator[AtTerminal]:
    """Run `orchestrator WORDS` at a terminal, beside the block."""
    env = {**surroundings(url, **settings), "TERM": "xterm"}

    def start(terminal: Path) -> Process:
        birth = Birth(env, cwd, terminal, terminal, terminal, leads_session=True)
        return Forked(birth, command_line, *words)

    with shown(start) as process:
        yield process


@contextmanager
def shown(start: Callable[[Path], Process]) -> Iterator[AtTerminal]:
    """Start a process at a terminal, beside the block."""
    process = AtTerminal(start)
    try:
        yield process
    finally:
        process.close()
