"""A certificate authority of our own, and a server that presents one certificate or another.

The commands are those of docs/howto/tls.md, with the name of this machine instead of the page's.
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
    """Return what the page types to make the authority and the certificate."""
    block = next(b for b in blocks(PAGE.read_text()) if b.language == "console")
    return [command for command, _ in commands(block.text)]


def certify(folder: Path, *, name: str = NAME, days: str = "365") -> Path:
    """Make an authority and a certificate in a folder, as the page does; another name or another term if asked for."""
    folder.mkdir()
    for command in page_commands():
        line = command.replace("db.example.com", name).replace("-days 365", f"-days {days}")
        # A kind of key that is made at once: its strength is not what is tested.
        line = line.replace("rsa:3072", "ec -pkeyopt ec_paramgen_curve:P-256")
        done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or days.startswith("-"), done.stderr
    return folder


class Shown:
    """The certificate that a server shows; another one can be put in its place while it runs."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._account = embedded_folder.account()
        place.mkdir()
        place.chmod(0o755)

    @property
    def settings(self) -> dict[str, str]:
        """What the server is started with."""
        return {
            "ssl": "on",
            "ssl_cert_file": str(self._place / "server.crt"),
            "ssl_key_file": str(self._place / "server.key"),
        }

    def put(self, folder: Path) -> None:
        """Put the certificate of a folder in place."""
        for name, mode in (("server.crt", 0o644), ("server.key", 0o600)):
            new = self._place / f"{name}.new"
            shutil.copy(folder / name, new)
            new.chmod(mode)
            if self._account is not None:
                os.chown(new, self._account.pw_uid, self._account.pw_gid)
            new.rename(self._place / name)

    def show(self, server: Server, folder: Path) -> None:
        """Do so while the server runs."""
        self.put(folder)
        with psycopg.connect(server.url(), sslmode="disable") as connection:
            connection.execute("SELECT pg_reload_conf()")
