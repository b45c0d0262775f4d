"""Start processes of the bench's own: run by this interpreter, out of the terminal's reach, settings left behind.

Ctrl-C is for the bench, which then ends them in its own order. The settings in the environment are for the user's own
workers, and so is the database that they name.
"""

import os
import subprocess
import sys
from typing import BinaryIO

from orchestrator.config import PREFIX


def spawn(
    module: str, *words: str, url: str | None = None, log: BinaryIO | None = None
) -> subprocess.Popen[bytes]:
    """Start a module; what it says goes to the log, or into a pipe. The URL goes through the environment, since
    everybody may read a command line."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    if url is not None:
        environment[f"{PREFIX}DATABASE_URL"] = url
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-P", "-m", module, *words], env=environment, start_new_session=True,
        stdin=subprocess.PIPE, stdout=log or subprocess.PIPE, stderr=log,
    )  # fmt: skip
