"""Untrusted text does no harm in names, keys, tags, payloads, results and errors, for each input and each output.

Text that can be stored comes back unchanged. Other text is refused with an error. A terminal shows only plain text.
"""

import dataclasses
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import structlog
from psycopg.types.json import Jsonb

from orchestrator import Orchestrator, events, observe
from orchestrator.cli.error_messages import report_error
from orchestrator.errors import DatabaseUnavailable, EnqueueRefused
from orchestrator.observe import log_output
from orchestrator.observe.log import has_line
from orchestrator.task.backoff import Backoff
from tests.conftest import MakeApp
from tests.forked import REPOSITORY
from tests.patience import eventually
from tests.schema.rows import insert, one
from tests.terminal import at_terminal
from tests.worker.processes import QUICK, run
from tests.worker.running import run_until_empty, task

STORABLE = {
    "format": "%s %(type)s %d %% {} {0.__class__} ${HOME} $1 :name ?",
    "quotes": "'; DROP TABLE orchestrator.tasks; --\"`$$",
    "backslashes": "\\x00 \\u0000 \\' \\",
    "markup": "[red]x[/red] <script>alert(1)</script> &amp; |",
    "right to left": "invoice\u202efdp.exe\u2066\u200f",
    "invisible": "a\u200bb\ufeff\u00ad\u2028c",
    "astral": "\U0001f600 Z\u0351\u0346\u0302",
}
CONTROL = {
    "escape": "\x1b]0;owned\x07\x1b[2J\x1b[31m",
    "one-byte escape": "\x9b31mred",
    "line": "ok\r\n2026-01-01 [info] all is well",
    "bell": "\x07\x08\x7f",
}
UNSTORABLE = {"NUL": "a\x00b", "surrogate": "a\ud800b"}
LONG = {"64 KB": "x" * 65_536}
HOSTILE = STORABLE | CONTROL | UNSTORABLE | LONG
# The places of a task that take untrusted text, and the texts that each place accepts.
SLOTS = {
    "type": STORABLE, "queue": STORABLE, "key": STORABLE | CONTROL, "tag": STORABLE | CONTROL,
    "metadata": STORABLE | CONTROL | LONG, "member": STORABLE | CONTROL | LONG, "value": STORABLE | CONTROL | LONG,
}  # fmt: skip
# PostgreSQL's errors for NUL and for bytes that are no character: it cannot store them.
NO_TEXT = ("22021", "22P05", "22P02")
FOUND = """
    SELECT jsonb_build_object(
        'type', type, 'queue', queue, 'idempotency_key', idempotency_key, 'tags', tags, 'metadata', metadata,
        'payload', payload
    )
    FROM orchestrator.tasks
"""
SHOWN = re.compile(r"\x1b\[[0-9;]*m")
"""Escape sequences for colours. Our own output contains them."""


def row_of(slot: str, text: str) -> dict[str, Any]:
    """Describe a task that has this text in one place."""
    plain = {
        "type": "mail",
        "queue": "default",
        "key": None,
        "tag": "t",
        "metadata": "m",
        "member": "a",
        "value": "v",
    }
    hostile = plain | {slot: text}
    return {
        "type": hostile["type"], "queue": hostile["queue"], "idempotency_key": hostile["key"], "tags": [hostile["tag"]],
        "metadata": {"of": hostile["metadata"]}, "payload": {hostile["member"]: hostile["value"]},
    }  # fmt: skip


def by_python(connection: psycopg.Connection, app: Orchestrator, row: dict[str, Any]) -> None:
    """Enqueue through the application."""
    options = {name: row[name] for name in ("queue", "tags", "metadata")} | {"key": row["idempotency_key"]}
    app.enqueue(row["type"], row["payload"], **options)


def by_function(connection: psycopg.Connection, app: Orchestrator, row: dict[str, Any]) -> None:
    """Call enqueue()."""
    connection.execute(
        "SELECT orchestrator.enqueue(%(type)s, %(payload)s, %(queue)s, key => %(idempotency_key)s, tags => %(tags)s,"
        " metadata => %(metadata)s)",
        row | {"payload": Jsonb(row["payload"]), "metadata": Jsonb(row["metadata"])},
    )


def by_set(connection: psycopg.Connection, app: Orchestrator, row: dict[str, Any]) -> None:
    """Call enqueue_many()."""
    item = {("key" if name == "idempotency_key" else name): value for name, value in row.items()}
    connection.execute("SELECT orchestrator.enqueue_many(%s)", [Jsonb([item])])


def by_insert(connection: psycopg.Connection, app: Orchestrator, row: dict[str, Any]) -> None:
    """Insert the row with a plain INSERT."""
    insert(connection, **row | {"payload": Jsonb(row["payload"]), "metadata": Jsonb(row["metadata"])})


WAYS: list[Callable[[psycopg.Connection, Orchestrator, dict[str, Any]], None]] = [
    by_python, by_function, by_set, by_insert,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("slot", SLOTS)
def test_text_is_stored_unchanged_or_refused(
    connection: psycopg.Connection, make_app: MakeApp, slot: str, way: Callable[..., None]
) -> None:
    """This holds for each way to enqueue and each place. The refusal is our error, or PostgreSQL's error for text that
    it cannot store. It is short even if the refused text is long."""
    app = make_app()
    for name, text in HOSTILE.items():
        row = row_of(slot, text)
        connection.execute("DELETE FROM orchestrator.tasks")
        refusal: Exception | None = None
        try:
            way(connection, app, row)
        except (EnqueueRefused, psycopg.Error, UnicodeEncodeError) as error:
            refusal = error
        found = connection.execute(FOUND).fetchall()

        assert ([] if refusal else [(row,)]) == found
        assert (refusal is None) == (text in SLOTS[slot].values()), f"{name}: {refusal}"
        assert len(str(refusal)) < 2_000
        state = getattr(refusal, "sqlstate", None)
        assert state is None or state.startswith("OR") or state in NO_TEXT, state


@pytest.mark.parametrize("name", [*STORABLE, *CONTROL])
def test_text_stays_unchanged_through_all_states_of_a_task(
    connection: psycopg.Connection, make_app: MakeApp, name: str
) -> None:
    """The handler receives, raises and returns it; it is the reason of a cancel, a requeue and a pause."""
    text = HOSTILE[name]
    kind, queue = (text, text) if name in STORABLE else ("mail", "default")
    app = make_app()
    seen: list[str] = []

    def handler(word: str) -> dict[str, str]:
        seen.append(word)
        if len(seen) == 1:
            raise ValueError(word)
        return {word: word}

    if kind.isprintable():
        app.task(name=kind, queue=queue, backoff=Backoff(base_seconds=0.0, jitter=0.0))(handler)
        task_id = app.enqueue(kind, {"word": text}, queue=queue, key=text).id
        run_until_empty(app, queues=[queue])
        assert ([text, text], {text: text}) == (seen, task(connection, task_id).result)
        assert text == one(connection, "SELECT error ->> 'message' FROM orchestrator.attempts")
    task_id = app.enqueue(kind, {"word": text}, queue=queue).id

    connection.execute("SELECT orchestrator.cancel(%s, %s)", [task_id, text])
    connection.execute("SELECT orchestrator.requeue(%s, %s)", [task_id, text])
    connection.execute("SELECT orchestrator.pause_queue(%s, %s)", [queue, text])
    connection.execute("SELECT orchestrator.requeue_where(type => %s, reason => %s)", [kind, text])

    assert {text} == {
        reason for (reason,) in connection.execute("SELECT reason FROM orchestrator.audit").fetchall()
    }
    assert (queue, 1) == connection.execute(
        "SELECT queue, pending FROM orchestrator.queue_summary WHERE state = 'paused'"
    ).fetchone()


class Terminal(io.StringIO):
    """A file in place of standard error that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Standard error as a terminal. It gets a line for each event."""
    file = Terminal()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(log_output, "logging_is_configured", lambda: False)
    structlog.reset_defaults()
    stop = observe.follow(minimum="debug")
    yield file
    stop()
    structlog.reset_defaults()


def is_text(shown: str) -> bool:
    """Return whether a text contains only printable characters, line ends and our colours."""
    return all(line.isprintable() for line in SHOWN.sub("", shown).split("\n"))


@pytest.mark.parametrize("name", sorted(STORABLE | CONTROL))
def test_an_event_cannot_command_the_terminal(terminal: Terminal, name: str) -> None:
    """Each field of each event may hold untrusted text. Each event is one line."""
    text = HOSTILE[name]
    for kind in filter(has_line, events.kinds()):
        terminal.seek(0)
        terminal.truncate()
        events.emit(kind(**{field.name: filled(str(field.type), text) for field in dataclasses.fields(kind)}))

        shown = terminal.getvalue()
        assert is_text(shown), f"{kind.__name__}: {shown!r}"
        assert 1 == shown.count("\n")


def filled(annotation: str, text: str) -> Any:
    """Return a value for a field; it contains the text if the field's type allows text."""
    if "tuple[str" in annotation:
        return (text,)
    if annotation.startswith("tuple"):
        return ()
    if "str" in annotation:
        return text
    return UUID(int=7) if "UUID" in annotation else 7


def test_a_traceback_at_a_terminal_shows_no_variable(terminal: Terminal) -> None:
    """It shows no value of a frame's variables, because they may be payloads, connections or passwords."""

    def connect(password: str) -> None:
        raise ValueError("no\x1b[2J such\nhost")

    logger = observe.logger(task_id=1)
    password = "hunter2-" * 2
    try:
        connect(password)
    except ValueError:
        logger.exception("failed", note="a\x1b[31mb\nc")

    shown = terminal.getvalue()
    assert is_text(shown)
    assert "ValueError: no\\x1b[2J such\nhost" in SHOWN.sub("", shown)
    assert "a\\x1b[31mb\\nc" in SHOWN.sub("", shown)
    assert password not in shown


def test_a_log_in_json_has_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback is one value of one line. Characters beyond ASCII are escaped."""
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(log_output, "logging_is_configured", lambda: False)
    structlog.reset_defaults()
    stop = observe.follow()
    try:
        raise ValueError("\x1b[2J\u202e\u2028")
    except ValueError:
        observe.logger(task_id=1).exception("failed")
    stop()
    structlog.reset_defaults()

    (line,) = file.getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert "ValueError: \x1b[2J\u202e\u2028" in json.loads(line)["exception"]


def test_a_worker_at_a_terminal_and_psql_show_text(
    connection: psycopg.Connection, database_url: str, tmp_path: Path
) -> None:
    """A real worker runs tasks that log and raise such text, and puts back an unknown type. psql shows the views."""
    for text in (STORABLE | CONTROL).values():
        # No worker has declared these types yet, so the rows need max_attempts.
        insert(connection, type="stranger.repeat", payload=Jsonb({"text": text}), max_attempts=2)
        insert(connection, type="stranger.give_up", payload=Jsonb({"text": text}), max_attempts=1)
    insert(connection, type=f"unknown {STORABLE['right to left']}", payload=Jsonb({}))

    with at_terminal(
        "worker", "tests.security.revealing_tasks:app", cwd=REPOSITORY, url=database_url, **QUICK
    ) as process:
        eventually(
            lambda: (
                one(connection, "SELECT count(*) FROM orchestrator.tasks_live WHERE type LIKE 'stranger%'")
                == 0
            ),
            "they have ended",
        )
        process.shows("task put back")
        process.presses_ctrl_c()
        assert 0 == process.ends()
    listed = run(
        "sql", "-c", "TABLE orchestrator.dead_letters", "-c", "TABLE orchestrator.task_history",
        url=database_url, cwd=tmp_path,
    )  # fmt: skip

    assert is_text(process.raw.replace("\r\n", "\n"))
    assert "\\x1b]0;owned" in process.shown
    assert len(STORABLE | CONTROL) == one(connection, "SELECT count(*) FROM orchestrator.dead_letters")
    # psql prints a right-to-left mark unchanged, but it escapes control codes.
    assert 0 == listed.returncode
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", listed.stdout)


def test_a_failed_command_prints_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer of PostgreSQL, or of another host, is untrusted text."""
    code = report_error(DatabaseUnavailable("cannot connect to \x1b[2J\u202e:\nserver said no"))

    assert 1 == code
    assert "error: cannot connect to \\x1b[2J\\u202e:\nserver said no\n" == capsys.readouterr().err


def test_a_hostile_reason_and_a_hostile_address_are_shown_as_text(database_url: str) -> None:
    """`resume` escapes control codes in the URL that it prints."""
    done = run("resume", "--after-restore", "--yes", url="postgresql://\x1b[2J@127.0.0.1:1/\x1b]0;owned\x07")

    assert 1 == done.returncode
    assert is_text(done.stdout + done.stderr)
