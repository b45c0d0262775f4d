"""Copy a database as users do: with pg_dump and pg_restore or psql of the server's own version, or as a template."""

import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from orchestrator.postgres import embedded_folder
from tests import servers
from tests.patience import PATIENCE_SECONDS


def binaries(url: str) -> Path:
    """Return the folder of the programs that have the version of the server."""
    with psycopg.connect(url) as connection:
        version = connection.info.server_version // 10_000
    for folder in (embedded_folder.binaries(), servers.debian_binaries(str(version))):
        path = folder / "pg_dump"
        if path.exists():
            said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
            if f" {version}." in said:
                return folder
    missing = f"there is no pg_dump of PostgreSQL {version} here"
    # These two bring it; for any other server it may be missing.
    assert not servers.choice().startswith(("embedded", "debian-")), missing
    pytest.skip(missing)


def dump(url: str, file: Path, *options: str) -> Path:
    """Write a dump of the database."""
    run("pg_dump", url, f"--file={file}", *options)
    return file


def restore(url: str, file: Path, *options: str) -> str:
    """Restore a dump in the custom format; return what pg_restore said."""
    return run("pg_restore", url, *options, str(file))


def play(url: str, file: Path) -> str:
    """Run a dump that is plain SQL, on and on whatever it meets, as psql does; return what psql said."""
    return run("psql", url, "--no-psqlrc", "--quiet", f"--file={file}")


def clone(administrator: psycopg.Connection, original: str, name: str) -> str:
    """Make a database with another as its template; return its URL."""
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    names = [sql.Identifier(one) for one in (name, str(conninfo_to_dict(original)["dbname"]))]
    administrator.execute(statement.format(*names))
    return servers.url_of(original, name)


def run(name: str, url: str, *options: str) -> str:
    done = subprocess.run(
        [binaries(url) / name, f"--dbname={url}", *options], capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    return done.stdout + done.stderr
