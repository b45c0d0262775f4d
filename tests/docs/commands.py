"""Run a page's command as at a terminal. A plain `orchestrator …` runs in a forked process; bash runs the others."""

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.forked import Birth, Forked, command_line
from tests.terminal import Process, shown

SHELL = re.compile(r"[|&;<>$`*?]")
# The next command gets the environment and folder of this one, so `export` and `cd` work as at a prompt.
SCRIPT = '{command}\nstatus=$?\nenv -0 >"$1"\nexit $status'


def run(
    command: str, *, folder: Path, environment: Mapping[str, str], kept: Path
) -> tuple[int, str, dict[str, str]]:
    """Return the exit status, the output, and the environment after the command."""
    if command.startswith("orchestrator ") and not SHELL.search(command):
        _, *words = shlex.split(command.replace("\\\n", " "))

        def fork(terminal: Path) -> Process:
            birth = Birth(environment, folder, Path(os.devnull), terminal, terminal, leads_session=True)
            return Forked(birth, command_line, *words)

        with shown(fork) as process:
            return process.ends(), process.shown, dict(environment)

    def start(terminal: Path) -> Process:
        words = ["bash", "-c", SCRIPT.format(command=command), "bash", str(kept)]
        with terminal.open("wb") as screen:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=screen, stderr=screen, cwd=folder, env=dict(environment),
                start_new_session=True,
            )  # fmt: skip

    with shown(start) as process:
        status, printed = process.ends(), process.shown
    after = kept.read_bytes().decode().split("\0") if kept.exists() else []
    pairs = (pair.partition("=") for pair in after if pair)
    return status, printed, {name: value for name, _, value in pairs}
