"""Every command there is, in every place where it cannot work: a sentence and an exit code, never a traceback.

The commands are found in click's tree, so one that is new is here from its first day. One that needs more than its
arguments to begin gets its words in WORDS.
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


def told(ran: Ran) -> str:
    """Return what was said, having seen that it is a sentence and fits its exit code."""
    assert "Traceback" not in ran.said
    if ran.code == 0:
        return ran.out
    assert ran.code in (1, 2), ran
    if words_of_a_check(ran):
        return ran.out
    assert "error: " in ran.err.lower(), ran
    return " ".join(ran.err.split())


def words_of_a_check(ran: Ran) -> bool:
    """Tell whether this is an answer, which happens to be no: that of `migrate --check`, or of `doctor`."""
    return ran.code == 1 and ran.err == "" and ran.out != ""


def of(words: str, command: click.Command, **more: str) -> list[str]:
    return words_for(words, command, WORDS | more)


@every_command
def test_without_a_database(words: str, command: click.Command) -> None:
    """Nobody listens: where it looked, and what came back."""
    url = "postgresql://jane:hunter2@127.0.0.1:1/shop"
    said = told(ran := run(*of(words, command), url=url, ORCHESTRATOR_START_WAIT_SECONDS="0"))

    assert (1, "") == (ran.code, ran.out)
    assert said.startswith("error: cannot connect to 127.0.0.1:1/shop:")
    assert "hunter2" not in said


@every_command
def test_without_a_name_of_a_database(words: str, command: click.Command) -> None:
    """The first mistake of all; only `version` has something to say all the same."""
    ran = run(*of(words, command))

    assert (0 if words == "version" else 1) == ran.code
    assert words == "version" or "error: no database was named" in told(ran)


@every_command
def test_without_a_schema(words: str, command: click.Command, empty_database_url: str) -> None:
    """The sentence names the command to run."""
    ran = run(*of(words, command), url=empty_database_url)

    assert words in ("migrate", "version") or ran.code == 1
    assert words in ("migrate", "version") or "run `orchestrator migrate`" in told(ran)


@pytest.fixture(scope="module")
def old_url(administrator: psycopg.Connection, server_url: str, template_database: str) -> Iterator[str]:
    """A database whose schema is older than this code."""
    with migrated_database(administrator, server_url, template_database) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE orchestrator.alembic_version SET version_num = '0000'")
        yield url


@every_command
def test_with_an_old_schema(words: str, command: click.Command, old_url: str) -> None:
    """Nothing is tried on it; a producer's act alone works, since producers may not look at the revision."""
    ran = run(*of(words, command), url=old_url)

    assert words in ("enqueue", "migrate", "version") or "this version needs 0001" in told(ran)
    told(ran)


BINARIES = debian_binaries("15")


class Place:
    """A server that asks for passwords, and its standby, which takes no writes."""

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
    """The server's own words, and not the password."""
    said = told(run(*of(words, command), url=place.wrong_password()))

    assert 'password authentication failed for user "jane"' in said
    assert "hunter2" not in said


@every_command
def test_on_a_standby(words: str, command: click.Command, place: Place) -> None:
    """A look works there, as far as nothing is unknown; what changes something is refused with where to go."""
    said = told(ran := run(*of(words, command), url=place.standby.url()))

    assert words in LOOKS or "takes no writes" in said or "read-only" in said, ran
    assert words not in LOOKS or "read-only" not in said, ran


@every_command
def test_in_a_read_only_session(words: str, command: click.Command, database_url: str) -> None:
    """As an administrator may have it for a login."""
    said = told(
        ran := run(*of(words, command), url=database_url, PGOPTIONS="-c default_transaction_read_only=on")
    )

    assert words in LOOKS or "read-only" in said, ran
    assert words not in LOOKS or "read-only" not in said, ran


@every_command
def test_of_what_is_unknown(words: str, command: click.Command, database_url: str) -> None:
    """An id or a name of nothing is not passed over; a list of nothing is said to be one."""
    ran = run(*of(words, command), url=database_url)

    told(ran)
    assert ran.said.strip() or words == "tasks export"
    if words not in ("enqueue", "resume") and any(
        isinstance(each, click.Argument) and each.required for each in command.params
    ):
        assert 1 == ran.code, ran


@every_command
def test_nobody_reads_on(words: str, command: click.Command, database_url: str) -> None:
    """Quiet, with the status of a process that SIGPIPE ended; or it had nothing to print there."""
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
    """A database in which every text that is a stranger's is an attack on a terminal."""
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
    """In no field of any command: what does not print is escaped, and no line is wider than the terminal."""
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
            text = ESCAPES.sub("", told(ran))
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
    """Standard output holds one document and nothing else, also where there is nothing."""
    if words not in LOOKS or all(each.name != "as_json" for each in command.params):
        pytest.skip("it prints no JSON")
    ran = run(*of(words, command), "--json", url=hostile_url)

    assert ran.code in (0, 1), ran
    if ran.out:
        json.loads(ran.out)
