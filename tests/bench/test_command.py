"""`orchestrator bench` on the command line: its refusals, its list, its output."""

import json
from collections.abc import Iterator

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from orchestrator import bench
from orchestrator.cli import orchestrator
from tests.worker.processes import run


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("--only throughptu", 2, "there is no measure 'throughptu'; did you mean throughput?"),
        (
            "--only throughput,enqueue_many",
            2,
            "there is no measure 'enqueue_many'; did you mean enqueue-many?",
        ),
        ("--only zzz", 2, "there is no measure 'zzz'; --list names them"),
        ("--only ,", 2, "no measure is named"),
        ("--fast", 2, "--fast"),
    ],
)
def test_a_wrong_command_line(words: str, code: int, sentence: str) -> None:
    """A sentence, and what was probably meant."""
    done = CliRunner().invoke(orchestrator, ["bench", *words.split()])

    assert code == done.exit_code
    assert sentence in " ".join(done.output.split())


def test_the_measures_are_listed() -> None:
    """By the names that --only takes, without a server."""
    done = CliRunner().invoke(orchestrator, ["bench", "--list"])

    assert [m.name for m in bench.MEASURES] == [line.split()[0] for line in done.output.splitlines()]


def test_the_server_is_away() -> None:
    """Said once, without its password, and without a word of a database that could not be dropped."""
    done = run("bench", "--url", "postgresql://jane:hunter2@127.0.0.1:1/x")

    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("error: cannot connect to 127.0.0.1:1/x")
    assert "hunter2" not in done.stderr


@pytest.fixture
def mere_login(administrator: psycopg.Connection, server_url: str) -> Iterator[str]:
    """The URL of a role that may log in, and nothing else."""
    name = f"bench_{administrator.info.backend_pid}"
    administrator.execute(f"CREATE ROLE {name} LOGIN")
    yield make_conninfo(server_url, user=name)
    administrator.execute(f"DROP ROLE {name}")


def test_a_role_that_may_not_create_databases(mere_login: str) -> None:
    """It is told what is missing, and who can give it."""
    done = run("bench", "--url", mere_login, "--only", "enqueue")

    assert 1 == done.returncode
    assert "may not create databases on this server" in done.stderr
    assert "ALTER ROLE bench_" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_document_for_machines(server_url: str) -> None:
    """One JSON document on standard output, and nothing else."""
    done = run("bench", "--url", server_url, "--quick", "--json", "--only", "enqueue")
    document = json.loads(done.stdout)
    result, _ = document["results"]

    assert (0, "") == (done.returncode, done.stderr)
    assert {"at", "cores", "processor", "server_version", "server_settings"} <= document["setting"].keys()
    assert ("enqueue", "tasks/s", 2) == (
        result["measure"],
        result["unit"],
        len(result["rounds"]["ours"]),
    )
    assert result["ratio"] == pytest.approx(result["ours"] / result["floor"])
    assert result["cost"]["wal_bytes_per_task"] > 0
