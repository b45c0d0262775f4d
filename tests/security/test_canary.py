"""A secret goes through every part of a task, and the tests find it only in its own columns.

The secrets are payloads, results, exceptions, keys, metadata, tags, progress, and the password of the database. The
tests search for each of them in every column of every table and view, in the workers' logs, in the output of commands,
in the server's log, in notifications, in the metrics, and on the command lines of our processes.
"""

import asyncio
import io
import json
import logging
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, generate_latest
from psycopg import sql

from orchestrator import Orchestrator, cli, observe
from orchestrator.errors import OrchestratorError
from orchestrator.postgres import embedded_folder
from tests import servers
from tests.patience import PATIENCE_SECONDS, eventually
from tests.security.canary import columns_with, hatch, leaked
from tests.servers import Server
from tests.worker.processes import (
    QUICK,
    Process,
    begin_worker,
    run,
)
from tests.worker.running import until, working

Arguments = dict[str, Any]
VAULT = "tests.security.careless_tasks:app"
WORDS = hatch()
SAID = {f"CANARY_{kind.upper()}": WORDS[kind] for kind in ("result", "exception", "progress")}

# The columns that may contain each secret. The daily partitions count as tasks_done.
MAY_STAND = {
    "payload": {"tasks.payload", "tasks_live.payload", "tasks_done.payload", "tasks_dead.payload"},
    "result": {"tasks.result", "tasks_done.result"},
    "exception": {
        "tasks.error", "tasks_done.error", "tasks_dead.error", "attempts.error", "dead_letters.error_message",
        "task_history.detail",
    },
    "key": {
        "tasks.idempotency_key", "tasks_done.idempotency_key", "tasks_live.idempotency_key",
        "tasks_dead.idempotency_key", "idempotency_keys.key",
    },
    "metadata": {"tasks.metadata", "tasks_live.metadata", "tasks_done.metadata", "tasks_dead.metadata"},
    "tag": {"tasks.tags", "tasks_live.tags", "tasks_done.tags", "tasks_dead.tags"},
    "progress": {"tasks.progress", "tasks_live.progress", "tasks_done.progress", "running_tasks.progress"},
    "password": set(),
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that requires a password from jane, and none from its superuser."""
    with servers.private(embedded_folder.binaries(), rules=servers.ASKING_JANE, migrated=False) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE ROLE jane LOGIN CREATEROLE PASSWORD {}").format(
                    sql.Literal(WORDS["password"])
                )
            )
            connection.execute("CREATE DATABASE vault OWNER jane")
        yield server


@pytest.fixture(scope="module")
def url(server: Server) -> str:
    """The URL of the database for jane, with her password. The command `migrate` has migrated it."""
    url = f"postgresql://jane:{WORDS['password']}@127.0.0.1:{server.port}/vault"
    migrated = run("migrate", VAULT, url=url)
    assert 0 == migrated.returncode, migrated.stderr
    assert [] == leaked({"migrate": migrated.stdout + migrated.stderr}, WORDS)
    return url


@pytest.fixture
def connection(server: Server, url: str) -> Iterator[psycopg.Connection]:
    """A superuser's session on this database, after all earlier tasks are deleted."""
    with psycopg.connect(server.url("vault"), autocommit=True) as connection:
        connection.execute(
            "TRUNCATE orchestrator.tasks, orchestrator.attempts, orchestrator.audit, orchestrator.idempotency_keys"
        )
        yield connection


def enqueue_all(url: str) -> None:
    """Enqueue a task of each type, with a key, metadata and tags."""
    app = Orchestrator(url)
    secret = WORDS["payload"]
    carried: Arguments = {"metadata": {"who": WORDS["metadata"]}, "tags": [WORDS["tag"]]}
    badly = ("raise", "retry", "discard", "cancel", "unfit result", "huge result")
    tasks: list[tuple[str, Arguments]] = [
        *((f"vault.{name}", {"secret": secret}) for name in ("keep", "compute", "book", "crash", "nobody")),
        *(("vault.break", {"how": how, "secret": secret}) for how in badly),
        ("vault.typed", {"on": secret, "number": 1}),
        ("vault.typed", {"on": "2026-01-01", "number": secret}),
        ("vault.typed", {"on": "2026-01-01", "number": 1, "also": secret}),
        ("vault.query", {"table": "picky", "secret": secret}),
    ]
    for number, (name, arguments) in enumerate(tasks):
        app.enqueue(name, arguments, key=f"{WORDS['key']}-{number}", **carried)
    app.close()


def test_a_secret_stays_in_its_own_columns(
    server: Server, url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Tasks end in every way, then an operator changes them. No other column, no notification and no log contains a
    secret, except the exception's text in the worker's log."""
    connection.execute("CREATE TABLE picky (word text CHECK (length(word) < 3))")
    connection.execute("GRANT ALL ON picky TO jane")
    # The failing handler turns off the server's log for its own statement: our code does not control that log line.
    connection.execute("GRANT SET ON PARAMETER log_min_messages TO jane")
    with psycopg.connect(server.url("vault"), autocommit=True) as ear:
        ear.execute("LISTEN orchestrator")
        ear.execute("LISTEN orchestrator_workers")
        places = {}
        with looked_at(url, tmp_path / "log") as process:
            eventually(lambda: process.has_logged("worker started"), "it serves")
            enqueue_all(url)
            eventually(
                lambda: (
                    not connection.execute(
                        "SELECT FROM orchestrator.tasks_live WHERE type <> 'vault.nobody'"
                    ).fetchall()
                ),
                "all of them have ended",
            )
            queries = connection.execute("SELECT query FROM pg_stat_activity").fetchall()
            places["pg_stat_activity"] = repr(queries)
            places["a command line"] = command_lines(process.pid)
            assert VAULT in places["a command line"]
            connection.execute("SELECT orchestrator.pause_queue('default', 'to look at them')")
            connection.execute("SELECT orchestrator.requeue(id) FROM orchestrator.tasks_dead")
            connection.execute("UPDATE orchestrator.tasks SET priority = 75 WHERE finished_at IS NULL")
            connection.execute("SELECT orchestrator.cancel(id) FROM orchestrator.tasks_live")
            connection.execute("DELETE FROM orchestrator.tasks WHERE type = 'vault.crash'")
            connection.execute("SELECT orchestrator.resume_queue('default')")
        places["worker's log"] = process.log
        places["notifications"] = repr(list(ear.notifies(timeout=0.1)))
    places["audit"] = repr(connection.execute("TABLE orchestrator.audit").fetchall())
    places["server's log"] = server.log

    stands = {kind: columns_with(connection, word) for kind, word in WORDS.items()}
    assert {} == {kind: found - MAY_STAND[kind] for kind, found in stands.items() if found - MAY_STAND[kind]}
    assert {
        "tasks.payload",
        "tasks.result",
        "attempts.error",
        "tasks.tags",
        "idempotency_keys.key",
    } <= set().union(*stands.values()), "the canaries have been there"
    assert [] == leaked(places, WORDS, allowed=[("worker's log", "exception")])
    assert {"task failed", "task dead lettered", "task cancelled"} == {
        line["event"]
        for line in map(json.loads, process.log.splitlines())
        if WORDS["exception"] in json.dumps(line)
    }


@contextmanager
def looked_at(url: str, log: Path) -> Iterator[Process]:
    """Run a worker during the block, in a new interpreter, because the test reads its command line."""
    settings = {**QUICK, **SAID}
    process = begin_worker(url, log, "--log-level", "debug", settings=settings, app=VAULT, fresh=True)
    try:
        yield process
    finally:
        process.kill()


def command_lines(pid: int) -> str:
    """Return the command lines of a process and of its children, which all users of the machine can read."""
    children = subprocess.run(
        ["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    return "".join(Path(f"/proc/{each}/cmdline").read_text() for each in (str(pid), *children))


def test_refused_statements_leave_no_values_in_the_servers_log(
    server: Server, url: str, connection: psycopg.Connection
) -> None:
    """The refusals of our code and of the schema show neither the row nor the parameters."""
    connection.execute("INSERT INTO orchestrator.queues (name, state) VALUES ('drained', 'draining')")
    app = Orchestrator(url, payload_bytes_max=10_000_000)
    secret = WORDS["payload"]
    error_text = io.StringIO()
    elsewhere = psycopg.connect(server.url("postgres"))
    refused: list[tuple[Arguments, Arguments]] = [
        ({"secret": secret * 30_000}, {}),
        ({"secret": secret}, {"queue": "drained"}),
        ({"secret": secret}, {"using": elsewhere}),
        ({"secret": {secret}}, {}),
        ({"secret": secret, "number": 10**5000}, {}),
        ({"secret": secret + "\x00"}, {}),
        ({"secret": secret}, {"tags": [secret * 50]}),
        ({"secret": secret}, {"metadata": {"m": secret * 30_000}}),
        ({"secret": secret}, {"key": WORDS["key"] * 100}),
    ]
    for arguments, options in refused:
        with pytest.raises(OrchestratorError) as refusal:
            app.enqueue("vault.keep", arguments, **options)
        error_text.writelines(traceback.format_exception(refusal.value))
    elsewhere.close()
    app.close()

    assert "ERROR:  queue 'drained' is draining" in server.log
    assert [] == leaked({"the error": error_text.getvalue(), "server's log": server.log}, WORDS)


WAYS_IN = {
    "right": "postgresql://jane:{word}@127.0.0.1:{port}/vault",
    "wrong password": "postgresql://jane:{word}x@127.0.0.1:{port}/vault",
    "no database": "postgresql://jane:{word}@127.0.0.1:{port}/nowhere",
    "no server": "postgresql://jane:{word}@127.0.0.1:1/vault",
    "no host": "host=nowhere.invalid user=jane password={word}",
    "unreadable": "postgresql://jane:{word}@[::1/vault",
    "a parameter that is none": "postgresql://127.0.0.1:{port}/vault?user=jane&password={word}&nonsense={word}",
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_no_command_shows_the_password(
    server: Server, url: str, way: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The output contains no password, whether the connection succeeds or fails."""
    monkeypatch.setenv(
        "ORCHESTRATOR_DATABASE_URL", WAYS_IN[way].format(word=WORDS["password"], port=server.port)
    )
    codes = []
    for words in (
        "migrate",
        "migrate --check",
        "resume --after-restore --yes",
        "sql -c \\conninfo",
        "dev x -q ,",
    ):
        monkeypatch.setattr(sys, "argv", ["orchestrator", *words.split()])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        codes.append(ended.value.code)

    assert [] == leaked({way: "".join(capfd.readouterr())}, WORDS)
    assert codes == ([0, 0, 0, 0, 2] if way == "right" else [code or 1 for code in codes])


def test_no_worker_shows_the_password(server: Server) -> None:
    """The parent of several workers does not show it either."""
    there = WAYS_IN["wrong password"].format(word=WORDS["password"], port=server.port)

    done = run("worker", VAULT, "-p", "2", "--log-level", "debug", url=there)

    assert "password authentication failed" in done.stderr
    assert [] == leaked({"worker": done.stdout + done.stderr}, WORDS)


def test_no_help_shows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes options whose default comes from the environment."""
    monkeypatch.setenv("ORCHESTRATOR_DATABASE_URL", WAYS_IN["right"].format(word=WORDS["password"], port=1))
    places = {
        name: CliRunner().invoke(cli.orchestrator, [*name.split(), "--help"]).output
        for name in ("", *cli.orchestrator.commands)
    }

    assert all("Usage: " in text for text in places.values())
    assert [] == leaked(places, WORDS)


def test_metrics_logs_and_reprs_contain_no_secret(
    url: str,
    connection: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In this process: the metrics for Prometheus, the log of a pool that cannot connect, and the repr of our
    objects."""
    caplog.set_level(logging.DEBUG)
    registry = CollectorRegistry()
    uncount = observe.count(registry)
    unfollow = observe.follow(minimum="debug")
    app = Orchestrator(url)
    task = app.task(name="vault.keep")(lambda secret: WORDS["result"])
    handle = task.using(key=WORDS["key"], metadata={"who": WORDS["metadata"]}).enqueue(
        secret=WORDS["payload"]
    )
    broken = Orchestrator(url.replace("/vault", "/nowhere"), pool_timeout_seconds=0.3)

    async def serve() -> None:
        async with working(app):
            await until(lambda: "elections_won_total 1.0" in numbers(registry), "it leads")
            await handle.aresult(timeout=PATIENCE_SECONDS)

    try:
        asyncio.run(serve())
        with pytest.raises(OrchestratorError) as refused:
            broken.enqueue("vault.keep", {"secret": WORDS["payload"]})
    finally:
        unfollow()
        uncount()
        app.close()
        broken.close()

    places = {
        "metrics": numbers(registry),
        "logging": caplog.text,
        "the terminal": "".join(capfd.readouterr()),
        "repr": repr(
            (app, app.config, str(app.config), vars(app)["_producer"], task, task.using(key="k"), handle)
        ),
        "an error": "".join(traceback.format_exception(refused.value)),
    }
    assert "orchestrator_elections_won_total 1.0" in places["metrics"]
    assert [] == leaked(places, WORDS)


def numbers(registry: CollectorRegistry) -> str:
    """Return the text that Prometheus reads."""
    return generate_latest(registry).decode()
