"""`orchestrator sql`: psql on the database; the server of an embedded: URL runs meanwhile."""

import json
import os
import stat
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from orchestrator.errors import ConfigError
from orchestrator.postgres import embedded, embedded_folder, psql
from tests.demo.left_over import processes_of
from tests.patience import eventually
from tests.terminal import at_terminal
from tests.worker.processes import run

# Tells what it was started with, instead of connecting.
FAKE = """#!{python}
import json, os, sys
if "--version" in sys.argv:
    print("psql (PostgreSQL) {version} (somebody's 1.0)")
else:
    print(json.dumps([sys.argv[1:], {{k: v for k, v in os.environ.items() if k.startswith("PG")}}]))
"""


@pytest.fixture
def fake(here: Path) -> Path:
    """A folder for the PATH with a psql of an age that nobody has."""
    return fake_psql(here / "bin", version="9999.1")


def fake_psql(folder: Path, *, version: str) -> Path:
    """Make a psql that only talks."""
    folder.mkdir()
    program = folder / "psql"
    program.write_text(FAKE.format(python=sys.executable, version=version))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def test_a_statement_on_an_embedded_server(here: Path) -> None:
    """The server lives for the statement, and not longer."""
    done = run("sql", "--url", "embedded:./data", "-X", "-At", "-c", "SELECT 6 * 7", cwd=here)

    assert (0, "42\n") == (done.returncode, done.stdout), done.stderr
    assert {} == processes_of(here)


def test_a_server_that_others_use_goes_on(here: Path) -> None:
    """Who leaves last, ends it."""
    try:
        with closing(psycopg.connect(embedded.start(here / "data"))) as connection:
            done = run("sql", "--url", "embedded:./data", "-X", "-At", "-c", "SELECT 6 * 7", cwd=here)

            assert (0, "42\n") == (done.returncode, done.stdout), done.stderr
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        embedded.release(here / "data")


def test_statements_from_standard_input_on_a_server(database_url: str, here: Path) -> None:
    """As from a script; the environment names the database."""
    given = "CREATE TABLE t (n int);\nINSERT INTO t VALUES (42);\nSELECT n FROM t;\n"

    done = run("sql", "-X", "-At", "-q", url=database_url, cwd=here, given=given)

    assert (0, "42\n") == (done.returncode, done.stdout), done.stderr


@pytest.mark.parametrize(
    ("statement", "status"), [("SELECT 1", 0), ("SELECT 1 / 0", 1)], ids=["fine", "failed"]
)
def test_the_exit_status_is_psqls(database_url: str, here: Path, statement: str, status: int) -> None:
    """A script can rely on it."""
    assert status == run("sql", "-X", "-c", statement, url=database_url, cwd=here).returncode


def test_a_server_that_is_away_is_psqls_to_tell(here: Path) -> None:
    """Its status for a lost connection is 2, and no password is in its words."""
    done = run("sql", "-X", "-c", "SELECT 1", url="postgresql://jane:hunter2@127.0.0.1:1/shop", cwd=here)

    assert (2, "") == (done.returncode, done.stdout)
    assert "hunter2" not in done.stderr
    assert "Traceback" not in done.stderr


def test_the_password_is_not_on_the_command_line(here: Path, fake: Path) -> None:
    """Anybody on the machine can read that; the environment only we and root can."""
    url = "postgresql+psycopg://jane:hunter%202@db.example:6543/shop?sslmode=require&sslpassword=hunter3"

    done = run("sql", "-c", "SELECT 1", url=url, cwd=here, PATH=f"{fake}:{os.environ['PATH']}")

    arguments, environment = json.loads(done.stdout)
    assert "hunter" not in " ".join(arguments)
    assert "hunter 2" == environment["PGPASSWORD"]
    assert ["-c", "SELECT 1"] == arguments[:2]
    assert {"user=jane", "host=db.example", "port=6543", "dbname=shop", "sslmode=require"} <= set(
        arguments[2].removeprefix("--dbname=").split()
    )


def test_a_password_of_the_environment_stays(here: Path, fake: Path) -> None:
    """A URL without one leaves it alone."""
    done = run(
        "sql", url="postgresql://jane@db.example/shop", cwd=here, PATH=f"{fake}:{os.environ['PATH']}",
        PGPASSWORD="theirs",
    )  # fmt: skip

    assert "theirs" == json.loads(done.stdout)[1]["PGPASSWORD"]


@pytest.mark.parametrize(("version", "installed"), [("15.20", False), ("18.6", True), ("9999", True)])
def test_an_embedded_server_gets_no_older_psql(
    here: Path, monkeypatch: pytest.MonkeyPatch, version: str, *, installed: bool
) -> None:
    """An older one does not know its catalog; as new a one is better, since it can edit lines."""
    folder = fake_psql(here / "bin", version=version)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    expected = folder / "psql" if installed else embedded_folder.binaries() / "psql"
    assert expected == psql.find(embedded=True)
    assert folder / "psql" == psql.find(embedded=False)


def test_the_bundled_psql_serves_where_none_is_installed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And without either, the sentence says what to install."""
    monkeypatch.setenv("PATH", str(here))
    assert embedded_folder.binaries() / "psql" == psql.find(embedded=False)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"no psql on the PATH; install"):
        psql.find(embedded=False)


def test_ctrl_c_cancels_the_statement_and_not_the_session(here: Path) -> None:
    """As in any psql; the session is left as one leaves it."""
    with at_terminal("sql", "--url", f"embedded:{here / 'data'}", "-X", cwd=here) as session:
        session.shows("postgres=#")
        session.types("SELECT pg_sleep(600);\n")
        try:
            with closing(psycopg.connect(embedded.start(here / "data"), autocommit=True)) as connection:
                asked = (
                    "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
                    " AND wait_event = 'PgSleep'"
                )
                eventually(lambda: connection.execute(asked.encode()).fetchall(), "it sleeps")
        finally:
            embedded.release(here / "data")

        session.presses_ctrl_c()

        session.shows("canceling statement due to user request")
        session.types("SELECT 'still ' || 'here';\n")
        session.shows("still here")
        session.types("\\q\n")
        assert 0 == session.ends(), session.shown
        assert {} == processes_of(here)
