"""A certificate authority of our own, and a server whose certificate the tests can replace.

The commands are those of docs/howto/tls.md, with the name of this machine instead of the name on the page.
"""

import os
import shutil
import subprocess
from pathlib import Path

import psycopg

from orchestrator.postgres import embedded_folder
from tests.docs.pages import REPOSITORY, blocks, commands
from tests.servers import Server

PAGE = REPOSITORY / "docs" / "howto" / "tls.md"
NAME = "localhost"


def page_commands() -> list[str]:
    """Return the page's commands that make the authority and the certificate."""
    block = next(b for b in blocks(PAGE.read_text()) if b.language == "console")
    return [command for command, _ in commands(block.text)]


def certify(folder: Path, *, name: str = NAME, days: str = "365") -> Path:
    """Make an authority and a certificate in a folder, as the page does, for this name and this number of days."""
    folder.mkdir()
    for command in page_commands():
        line = command.replace("db.example.com", name).replace("-days 365", f"-days {days}")
        # This kind of key is fast to make. The tests do not depend on its strength.
        line = line.replace("rsa:3072", "ec -pkeyopt ec_paramgen_curve:P-256")
        done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or days.startswith("-"), done.stderr
    return folder


class Shown:
    """The certificate that a server shows. The tests can replace it while the server runs."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._account = embedded_folder.account()
        place.mkdir()
        place.chmod(0o755)

    @property
    def settings(self) -> dict[str, str]:
        """The settings with which the server starts."""
        return {
            "ssl": "on",
            "ssl_cert_file": str(self._place / "server.crt"),
            "ssl_key_file": str(self._place / "server.key"),
        }

    def put(self, folder: Path) -> None:
        """Copy the certificate of a folder to the place from which the server reads it."""
        for name, mode in (("server.crt", 0o644), ("server.key", 0o600)):
            new = self._place / f"{name}.new"
            shutil.copy(folder / name, new)
            new.chmod(mode)
            if self._account is not None:
                os.chown(new, self._account.pw_uid, self._account.pw_gid)
            new.rename(self._place / name)

    def show(self, server: Server, folder: Path) -> None:
        """Replace the certificate and make the running server load it."""
        self.put(folder)
        with psycopg.connect(server.url(), sslmode="disable") as connection:
            connection.execute("SELECT pg_reload_conf()")
