"""Start processes of the bench's own: run by this interpreter, out of the terminal's reach, settings left behind.

Ctrl-C is for the bench, which then ends them in its own order. The settings in the environment are for the user's own
workers, and so is the database that they name.
"""

import os
import subprocess  # nosec B404 # each call says what it starts
import sys
from collections.abc import Mapping
from pathlib import Path

from orchestrator.bench.ground import Ground
from orchestrator.config import PREFIX

LOG_TAIL_CHARACTERS = 1_000


def spawn(
    ground: Ground,
    module: str,
    *words: str,
    url: str | None = None,
    answers: bool = True,
    settings: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a module, with a pipe to it, by whose end it knows of ours. It answers through another pipe, and what else
    it says goes to a log. The URL goes through the environment, since everybody may read a command line."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    environment |= settings or {}
    if url is not None:
        environment[f"{PREFIX}DATABASE_URL"] = url
    with log_of(ground).open("ab") as log:
        return subprocess.Popen(  # nosec B603 # noqa: S603 - our own command
            [sys.executable, "-P", "-m", module, *words], env=environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE if answers else log, stderr=log,
        )  # fmt: skip


def end(process: subprocess.Popen[bytes]) -> None:
    """End it at once."""
    process.kill()
    process.communicate()


def last_words(ground: Ground) -> str:
    """Return the end of what our processes have said."""
    return log_of(ground).read_text(errors="replace")[-LOG_TAIL_CHARACTERS:].strip()


def log_of(ground: Ground) -> Path:
    return ground.folder / "processes.log"
