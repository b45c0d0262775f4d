"""Every command in every place where it cannot work: a sentence and an exit code, never a traceback.

The tests find the commands in click's tree, so a new command is tested from its first day. WORDS has the arguments
for a command that needs more than its required ones.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import click
import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator.events import bus
from orchestrator.schema import migrate
from tests.cli.in_process import UNKNOWN_ID, Ran, ended, leaves, names_task, run, words_for
from tests.conftest import migrated_database
from tests.patience import eventually
from tests.schema.rows import names_unchecked, put, sleeping_worker
from tests.servers import Server, debian_binaries, temporary_directory
from tests.standby import Standby, position

# They start something of their own that stays, and have tests for their refusals.
APART = {"bench", "demo", "dev", "sql", "worker"}
WORDS = {
    "enqueue": "mail.send {}",
    "migrate": "--check",
    "queues set": "nothing-of-this-name --priority 60",
    "resume": "--after-restore --yes",
    "status": "--exact",
    "tasks cancel": f"{UNKNOWN_ID} --yes",
    "tasks delete": f"{UNKNOWN_ID} --yes",
    "tasks priority": f"high {UNKNOWN_ID} --yes",
    "tasks requeue": f"{UNKNOWN_ID} --yes",
}
# What is read where nothing may be written: all else changes something, and is refused there.
LOOKS = {
    "doctor", "explain", "failures", "leader", "migrate", "queues list", "status", "tasks export", "tasks list",
    "tasks show", "version", "workers list",
}  # fmt: skip
EVERY = [
    pytest.param(words, command, id=words)
    for words, command in leaves()
    if words not in APART and any(parameter.name == "url" for parameter in command.params)
]
every_command = pytest.mark.parametrize(("words", "command"), EVERY)
# They print texts, or statements to be copied, as they are, however long a line is.
WHOLE = {"doctor", "explain", "tasks export", "tasks show"}
HOSTILE = (
    "evil\x1b[2J\x1b]0;title\x07\x9b31m‮ [red]x[/] :smile:\r\n\tline two '; DROP TABLE \\ \u2028" + "w" * 90
)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def output_of(ran: Ran) -> str:
    """Return the output, after a check that it is a sentence and fits the exit status."""
    assert "Traceback" not in ran.output
    if ran.code == 0:
        return ran.out
    assert ran.code in (1, 2), ran
    if words_of_a_check(ran):
        return ran.out
    assert "error: " in ran.err.lower(), ran
    return " ".join(ran.err.split())


def words_of_a_check(ran: Ran) -> bool:
    """Return whether this is a negative answer: of `migrate --check`, or of `doctor`."""
    return ran.code == 1 and ran.err == "" and ran.out != ""


def of(words: str, command: click.Command, **more: str) -> list[str]:
    return words_for(words, command, WORDS | more)


@every_command
def test_without_a_database(words: str, command: click.Command) -> None:
    """No server listens: the message has the address and the error."""
    url = "postgresql://jane:hunter2@127.0.0.1:1/shop"
    output = output_of(ran := run(*of(words, command), url=url, ORCHESTRATOR_START_WAIT_SECONDS="0"))

    assert (1, "") == (ran.code, ran.out)
    assert output.startswith("error: cannot connect to 127.0.0.1:1/shop:")
    assert "hunter2" not in output


@every_command
def test_without_a_name_of_a_database(words: str, command: click.Command) -> None:
    """Only `version` prints something all the same."""
    ran = run(*of(words, command))

    assert (0 if words == "version" else 1) == ran.code
    assert words == "version" or "error: no database was named" in output_of(ran)


@every_command
def test_without_a_schema(words: str, command: click.Command, empty_database_url: str) -> None:
    """The sentence names the command to run."""
    ran = run(*of(words, command), url=empty_database_url)

    assert words in ("migrate", "version") or ran.code == 1
    assert words in ("migrate", "version") or "run `orchestrator migrate`" in output_of(ran)


@pytest.fixture(scope="module")
def old_url(administrator: psycopg.Connection, server_url: str, template_database: str) -> Iterator[str]:
    """A database whose schema is older than this code."""
    with migrated_database(administrator, server_url, template_database) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE orchestrator.alembic_version SET version_num = '0000'")
        yield url


@every_command
def test_with_an_old_schema(words: str, command: click.Command, old_url: str) -> None:
    """The commands do nothing. Only a producer's command works, because producers may not read the revision."""
    ran = run(*of(words, command), url=old_url)

    assert words in ("enqueue", "migrate", "version") or "this version needs 0002" in output_of(ran)
    output_of(ran)


LONG = ("w" * 100_000, "9" * 100_000)


def with_each_long(words: str, command: click.Command, long: str) -> Iterator[list[str]]:
    """Yield a command line for each of its arguments and options that takes a value, given as a very long one."""
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    agreed = ["--yes"] if any(each.name == "yes" for each in command.params) else []
    if arguments:
        yield [*words.split(), *(long for each in arguments if each.required), *agreed]
    for option in command.params:
        if isinstance(option, click.Option) and not option.is_flag:
            yield [*of(words, command), max(option.opts, key=len), long]
    yield [*of(words, command), f"--{long}"]
    yield [*of(words, command), long]
    yield [*of(words, command), f"payload.{long}=1"]
    yield [*of(words, command), f"payload.name={long}"]


@every_command
@pytest.mark.parametrize("long", LONG, ids=["letters", "digits"])
def test_with_a_very_long_value(words: str, command: click.Command, long: str, database_url: str) -> None:
    """The message does not quote it whole."""
    for line in with_each_long(words, command, long):
        ran = run(*line, url=database_url)

        output_of(ran)
        assert len(ran.output) < 20_000, f"{len(ran.output)} characters: {[each[:40] for each in line]}"


BINARIES = debian_binaries("15")


class Place:
    """A server that asks for passwords, and its read-only standby."""

    def __init__(self, folder: Path) -> None:
        self.primary = Server(BINARIES, folder / "primary").start()
        self.standby = Standby(self.primary, folder / "standby")
        migrate.upgrade(self.primary.url())
        with psycopg.connect(self.primary.url(), autocommit=True) as connection:
            connection.execute("CREATE ROLE jane LOGIN SUPERUSER PASSWORD 'right'")
        self.standby.start()
        self.standby.wait_for(position(self.primary))
        rules = self.primary.cluster / "pg_hba.conf"
        rules.write_text("host all jane 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        with psycopg.connect(self.primary.url(), autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")

    def wrong_password(self) -> str:
        return self.primary.url().replace("postgres@", "jane:hunter2@")

    def close(self) -> None:
        for server in (self.standby, self.primary):
            server.close()


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Both, for the tests of this module."""
    if not BINARIES.exists():
        pytest.skip("Debian's PostgreSQL 15 is not here")
    with temporary_directory() as folder:
        folder.chmod(0o755)
        place = Place(folder)
        try:
            eventually(
                lambda: "password" in run("leader", url=place.wrong_password()).err, "passwords are asked for"
            )
            yield place
        finally:
            place.close()


@every_command
def test_with_a_wrong_password(words: str, command: click.Command, place: Place) -> None:
    """The server's message, without the password."""
    output = output_of(run(*of(words, command), url=place.wrong_password()))

    assert 'password authentication failed for user "jane"' in output
    assert "hunter2" not in output


@every_command
def test_on_a_standby(words: str, command: click.Command, place: Place) -> None:
    """Commands that only read work as far as possible. Commands that write are refused with advice."""
    output = output_of(ran := run(*of(words, command), url=place.standby.url()))

    assert words in LOOKS or "takes no writes" in output or "read-only" in output, ran
    assert words not in LOOKS or "read-only" not in output, ran


@every_command
def test_in_a_read_only_session(words: str, command: click.Command, database_url: str) -> None:
    """As an administrator may set it for a login."""
    output = output_of(
        ran := run(*of(words, command), url=database_url, PGOPTIONS="-c default_transaction_read_only=on")
    )

    assert words in LOOKS or "read-only" in output, ran
    assert words not in LOOKS or "read-only" not in output, ran


@every_command
def test_an_unknown_id_or_name_is_reported(words: str, command: click.Command, database_url: str) -> None:
    """No command ignores an unknown id or name. An empty list says that it is empty."""
    ran = run(*of(words, command), url=database_url)

    output_of(ran)
    assert ran.output.strip() or words == "tasks export"
    if words not in ("enqueue", "resume") and any(
        isinstance(each, click.Argument) and each.required for each in command.params
    ):
        assert 1 == ran.code, ran


@every_command
def test_a_closed_pipe_ends_a_command_quietly(words: str, command: click.Command, database_url: str) -> None:
    """With the status of a process that SIGPIPE ended, or with 0 if it had nothing to print."""
    reading, writing = os.pipe()
    os.close(reading)
    closed = open(writing, "w")  # noqa: SIM115 - its close is the point: it fails, or not any more
    errors = sys.stderr
    with (
        mock.patch.object(sys, "argv", ["orchestrator", *of(words, command)]),
        mock.patch.object(sys, "stdout", closed),
        mock.patch.dict(os.environ, {"ORCHESTRATOR_DATABASE_URL": database_url}),
    ):
        code = ended()
    closed.close()

    assert code in (0, 1, 141)
    assert errors is sys.stderr


@pytest.fixture
def hostile_url(database_url: str, connection: psycopg.Connection) -> str:
    """A database in which every untrusted text is an attack on a terminal."""
    clean = HOSTILE.replace("\x00", "")
    with names_unchecked(connection):
        connection.execute(
            "INSERT INTO orchestrator.types (name, queue) VALUES (%s, %s)", [clean, clean[:190]]
        )
        connection.execute("SELECT orchestrator.pause_queue(%s, %s)", [clean[:190], clean])
    worker = sleeping_worker(connection, clean[:190])
    connection.execute(
        "UPDATE orchestrator.workers SET host = %s, version = %s, is_leader = true, term = 1, "
        "leader_until = now() + interval '1 day' WHERE id = %s",
        [clean, clean, worker],
    )
    error = Jsonb({"class": clean, "message": clean, "traceback": clean})
    for status in ("pending", "running", "dead_letter", "completed"):
        more = {"error": error, "tags": [clean]} if status == "dead_letter" else {}
        put(connection, status, queue=clean[:190], type=clean, **more)
    return database_url


@pytest.mark.parametrize("width", [None, 40, 80])
def test_hostile_text_reaches_no_screen(
    hostile_url: str, connection: psycopg.Connection, width: int | None
) -> None:
    """In any field of any command: unprintable characters are escaped, and no line is wider than the terminal."""
    (task_id,) = connection.execute("SELECT min(id) FROM orchestrator.tasks_dead").fetchone() or (0,)
    for words, command in leaves():
        if words not in LOOKS or words in ("migrate", "version"):
            continue
        number = str(task_id) if any(map(names_task, command.params)) else ""
        for options in ([], ["--json"] if any(each.name == "as_json" for each in command.params) else []):
            ran = run(
                *of(words, command, **({words: number} if number else {})),
                *options,
                url=hostile_url,
                width=width,
            )
            text = ESCAPES.sub("", output_of(ran))
            assert ran.code in (0, 1), ran
            assert [] == [each for each in text if not each.isprintable() and each not in "\n\t"], (
                words,
                text,
            )
            # A sentence is wrapped by the terminal; what has columns would be torn.
            if width is not None and not options and text.count("\n") > 1 and words not in WHOLE:
                wide = [line for line in text.splitlines() if len(line) > width]
                assert [] == wide, (words, wide)


@every_command
def test_json_is_json(words: str, command: click.Command, hostile_url: str) -> None:
    """Standard output has exactly one document, also if there is no data."""
    if words not in LOOKS or all(each.name != "as_json" for each in command.params):
        pytest.skip("it prints no JSON")
    ran = run(*of(words, command), "--json", url=hostile_url)

    assert ran.code in (0, 1), ran
    if ran.out:
        json.loads(ran.out)


def test_a_worker_command_in_this_process_leaves_no_subscriber() -> None:
    """Else each later test of this process would log its events, once more for each such command."""
    before = bus._subscribers[:]
    done = run(
        "worker",
        "tests.worker.tasks:app",
        url="postgresql://127.0.0.1:1/x",
        ORCHESTRATOR_START_WAIT_SECONDS="0",
    )

    assert (1, True) == (done.code, "cannot connect to 127.0.0.1:1/x" in done.err)
    assert before == bus._subscribers
