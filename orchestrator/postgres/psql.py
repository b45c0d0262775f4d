"""Open psql on a database, and keep an embedded server running meanwhile.

There may be two psql: an installed one, which has line editing and the machine's configuration, and the wheel's, which
has the embedded server's version and no line editing. The installed one is used unless it is older than the embedded
server: its \\d may then fail on an unknown catalog.
"""

import os
import re
import shutil
import signal
import subprocess  # nosec B404 # each call says what it starts
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from orchestrator.errors import ConfigError, EmbeddedServerError
from orchestrator.postgres import connect, embedded_folder, embedded_stop

MAJOR_VERSION = re.compile(r"\b(\d+)[.\d]*(?:\s|$)")
PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def run(url: str, arguments: Sequence[str] = ()) -> int:
    """Run psql with these arguments until it ends. Return its exit status, or 128+n if signal n ended it."""
    program = find(embedded=url.startswith("embedded:"))
    address, environment = without_secrets(connect.conninfo(url, application_name="orchestrator sql"))
    # The address comes last: a later -d among the arguments would replace host and port as well.
    command = [str(program), *arguments, f"--dbname={address}"]
    try:
        started = subprocess.Popen(command, env={**os.environ, **environment})  # nosec B603 # noqa: S603 - psql
        with started as process, signals_for(process):
            status = process.wait()
    finally:
        embedded_stop.leave(url)
    return status if status >= 0 else 128 - status


def find(*, embedded: bool) -> Path:
    """Return the psql to run."""
    installed = shutil.which("psql")
    try:
        bundled: Path | None = embedded_folder.binaries() / "psql"
    except EmbeddedServerError:
        bundled = None
    if installed is not None and not (embedded and bundled and major(installed) < major(str(bundled))):
        return Path(installed)
    if bundled is not None:
        return bundled
    raise ConfigError(
        "there is no psql on the PATH; install PostgreSQL's client, or pg-orchestrator[embedded], which brings one"
    )


def major(program: str) -> int:
    """Return a psql's major version; 0 if its output has none."""
    command = [program, "--version"]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # nosec B603 # noqa: S603 - psql
    found = MAJOR_VERSION.search(output)
    return int(found[1]) if found else 0


def without_secrets(info: str) -> tuple[str, dict[str, str]]:
    """Split a connection string into the part without secrets, which the process list shows, and the password as an
    environment variable.

    The other secrets have no variable; psql asks for them.
    """
    secret = {option.keyword.decode() for option in pq.Conninfo.get_defaults() if option.dispchar == b"*"}
    given: dict[str, Any] = conninfo_to_dict(info)
    environment = {"PGPASSWORD": str(given["password"])} if given.get("password") else {}
    return make_conninfo(**{name: value for name, value in given.items() if name not in secret}), environment


@contextmanager
def signals_for(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let psql handle signals: Ctrl-C cancels its statement, and a signal that ends us is passed on to it."""

    def leave_it(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: the terminal signals psql as well."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    handlers = {signal.SIGINT: leave_it, **dict.fromkeys(PASSED_ON, pass_on)}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
