"""A process at a terminal of its own: it is shown what a person sees, and Ctrl-C is the key, not a signal to a pid."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.patience import PATIENCE_SECONDS
from tests.worker.processes import command, eventually, surroundings

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
ROWS_AND_COLUMNS = (50, 120)


class AtTerminal:
    """A command, its terminal, and everything that was shown on it."""

    def __init__(self, *words: str, cwd: Path, url: str | None = None, **settings: str) -> None:
        self._screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *ROWS_AND_COLUMNS, 0, 0))
        try:
            self.popen = subprocess.Popen(
                command(*words), stdin=terminal, stdout=terminal, stderr=terminal, cwd=cwd,
                env={**surroundings(url, **settings), "TERM": "xterm"}, start_new_session=True,
                preexec_fn=take_terminal,
            )  # fmt: skip
        finally:
            os.close(terminal)
        self._pieces: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
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
        self._reader.join(PATIENCE_SECONDS)
        return status

    def close(self) -> None:
        """See that it is gone."""
        with suppress(ProcessLookupError):
            self.popen.kill()
        self.popen.wait()
        self._reader.join(PATIENCE_SECONDS)
        os.close(self._screen)

    def _read(self) -> None:
        # Ends: Linux says EIO when nobody holds the other end any more.
        with suppress(OSError):
            while piece := os.read(self._screen, 65_536):
                self._pieces.append(piece)


def take_terminal() -> None:
    """Make standard input the terminal that controls this session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def at_terminal(*words: str, cwd: Path, url: str | None = None, **settings: str) -> Iterator[AtTerminal]:
    """Run a command at a terminal, beside the block."""
    process = AtTerminal(*words, cwd=cwd, url=url, **settings)
    try:
        yield process
    finally:
        process.close()
