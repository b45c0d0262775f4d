"""Run a command as at a terminal: its output is what a person sees, colours taken off."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

SECONDS_MAX = 120
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# The command's environment and folder are the next one's: `export` and `cd` last, as at a prompt.
SCRIPT = '{command}\nstatus=$?\nenv -0 >"$1"\nexit $status'


def run(
    command: str, *, folder: Path, environment: Mapping[str, str], kept: Path
) -> tuple[int, str, dict[str, str]]:
    """Return the exit status, what was printed, and the environment afterwards."""
    screen, terminal = pty.openpty()
    try:
        process = subprocess.Popen(
            ["bash", "-c", SCRIPT.format(command=command), "bash", str(kept)],
            stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
            cwd=folder, env=dict(environment), start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(terminal)
    try:
        printed = everything_from(screen, process)
        status = process.wait(SECONDS_MAX)
    finally:
        os.close(screen)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    after = kept.read_bytes().decode().split("\0") if kept.exists() else []
    pairs = (pair.partition("=") for pair in after if pair)
    return status, COLOUR.sub("", printed).replace("\r\n", "\n"), {name: value for name, _, value in pairs}


def everything_from(screen: int, process: subprocess.Popen[bytes]) -> str:
    """Read to the end. Ends: the last writer closes the terminal, or the time is over."""
    deadline = time.monotonic() + SECONDS_MAX
    pieces: list[bytes] = []
    while time.monotonic() < deadline:
        ready, _, _ = select.select([screen], [], [], 0.1)
        if not ready:
            if process.poll() is not None:
                break
            continue
        try:
            piece = os.read(screen, 65_536)
        except OSError:
            # How Linux says that nobody holds the other end any more.
            break
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces).decode(errors="replace")
