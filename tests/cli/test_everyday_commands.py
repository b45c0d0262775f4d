"""The everyday commands: status, queues, workers, leader, enqueue, version."""

import json
import re

import psycopg
import pytest

from orchestrator.version import __version__
from tests.cli.in_process import run
from tests.forked import REPOSITORY
from tests.schema.rows import one, put, read, sleeping_worker
from tests.terminal import at_terminal


def test_status_as_json_has_everything_on_the_screen(
    database_url: str, connection: psycopg.Connection
) -> None:
    """For programs; with the flag or with its variable."""
    put(connection, "dead_letter", queue="mail")
    by_flag = json.loads(run("status", "--json", url=database_url).out)
    by_variable = json.loads(run("status", url=database_url, ORCHESTRATOR_STATUS_JSON="1").out)

    assert ["default", "mail"] == [queue["name"] for queue in by_flag["queues"]]
    assert {
        "about": "queue mail has 1 dead letter",
        "command": "orchestrator failures",
    } in by_flag["attention"]
    assert (None, []) == (by_flag["leader"], by_flag["workers"])
    assert by_flag.keys() == by_variable.keys()


@pytest.mark.parametrize("width", [40, 80, 120, None])
def test_status_fits_the_screen(database_url: str, connection: psycopg.Connection, width: int | None) -> None:
    """Less important columns are omitted. The advised command is complete, in one piece or folded."""
    for name in ("mail", "a.queue.with.a.long.name.of.its.own"):
        put(connection, queue=name)
    sleeping_worker(connection, "mail")
    ran = run("status", url=database_url, width=width)

    assert 0 == ran.code
    lines = re.sub(r"\x1b\[[0-9;]*m", "", ran.out).splitlines()
    assert width is None or max(map(len, lines)) <= width
    assert "queue" in ran.out
    assert "ready" in ran.out
    assert "orchestrator worker MODULE:APP" in " ".join(" ".join(lines).split())


def test_many_queues_are_not_a_screen(database_url: str, connection: psycopg.Connection) -> None:
    """Queues with tasks are shown, and a line has the number of the others."""
    connection.execute(
        "INSERT INTO orchestrator.queues (name) SELECT 'q' || n FROM generate_series(1, 100) AS n"
    )
    put(connection, queue="q99")
    ran = run("status", url=database_url)

    assert "q99" in ran.out
    assert "and 61 more: orchestrator queues list" in ran.out


def test_watching_needs_a_terminal(database_url: str) -> None:
    """A file would be full of screens; the message says what to do instead."""
    ran = run("status", "--watch", url=database_url)

    assert (2, "") == (ran.code, ran.out)
    assert "--watch draws on a terminal, and there is none; add --json" in " ".join(ran.err.split())


def test_a_watched_screen_is_left_in_order(database_url: str, connection: psycopg.Connection) -> None:
    """Live until Ctrl-C, on a screen of its own. Then the terminal is restored, and shows the last values."""
    put(connection, queue="mail")
    words = ("status", "--watch", "--every", "0.2")
    with at_terminal(*words, url=database_url, cwd=REPOSITORY, COLUMNS="60") as screen:
        screen.shows("mail")
        put(connection, queue="reports")
        screen.shows("reports")
        screen.presses_ctrl_c()
        code = screen.ends()

    assert 0 == code, screen.raw
    assert "▁" in screen.raw
    before, own, after = screen.raw.rpartition("\x1b[?1049l")
    assert "\x1b[?1049h" in before, "a screen of its own"
    assert own, "and back"
    assert "reports" in after
    assert "\x1b[?25h" in screen.raw.rpartition("\x1b[?25l")[2], "the cursor is shown again"
    assert "Traceback" not in screen.raw


def test_queues_are_paused_and_resumed(database_url: str, connection: psycopg.Connection) -> None:
    """Several in one command; the list shows the time, the role and the reason."""
    connection.execute("INSERT INTO orchestrator.queues (name) VALUES ('mail')")
    paused = run("queues", "pause", "mail", "default", "--reason", "deploy", url=database_url)
    listed = json.loads(run("queues", "list", "--json", url=database_url).out)
    shown = run("queues", "list", url=database_url).out
    resumed = run("queues", "resume", "mail", url=database_url)

    assert (0, 2) == (paused.code, paused.out.count("running tasks go on, and no other begins"))
    assert [("paused", "deploy")] * 2 == [(each["state"], each["state_reason"]) for each in listed]
    assert 2 == shown.count(": deploy")
    assert "resumed mail\n" == resumed.out
    assert "paused" == one(connection, "SELECT state FROM orchestrator.queues WHERE name = 'default'")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("queues pause defualt", 1, "there is no queue 'defualt'. Did you mean default?"),
        ("queues puase default", 2, "Did you mean orchestrator queues pause?"),
        ("pause default", 2, "Did you mean orchestrator queues pause?"),
        ("queues set default --priority 101", 2, "101 is not in the range"),
        ("queues set default --timeout soon", 2, "'soon' is no span of time; write 90s, 5m, 1h30m, 2d or 1w"),
        (
            "queues set default --clear timeout --timeout 5m",
            2,
            "--clear timeout and --timeout contradict each other",
        ),
        ("queues set nothing", 1, "there is no queue 'nothing'"),
        ("queues set default --prioritty 5", 2, "--priority"),
        ("workers drain nobody", 1, "there is no worker 'nobody'; none lives"),
        ("workers stop nobody --grace -1", 2, "-1"),
        ("enqueue", 2, "Missing argument 'TYPE'"),
        ("enqueue mail {", 2, "write a JSON object, for example '{\"user_id\": 1}'"),
        ("enqueue mail [1]", 2, "must be a JSON object"),
        (
            "enqueue mail {} --priority urgent",
            1,
            "the priority is 'urgent'; it must be 0 to 100, or one of low",
        ),
        ("enqueue mail {} --priority -1", 1, "it must lie between 0 and 100"),
        ("enqueue mail {} --run-at tomorrow", 2, "'tomorrow' is no point in time; write for example 2"),
        ("enqueue mail {} --run-at 2030-01-01T00:00", 2, "has no time zone; write for example 2"),
        ("enqueue mail {} --run-at 2030-01-01T00:00Z --delay 5m", 2, "name two moments; give one of them"),
        ("status --every 0", 2, "0.0 is not in the range"),
    ],
)
def test_a_slip_gets_a_sentence(database_url: str, words: str, code: int, message: str) -> None:
    """With a suggestion."""
    ran = run(*words.split(), url=database_url)

    assert (code, "") == (ran.code, ran.out)
    assert message in " ".join(ran.err.split())


def test_a_task_is_enqueued_with_the_given_options(database_url: str, connection: psycopg.Connection) -> None:
    """With all options. The payload comes from standard input, and the id goes to standard output."""
    options = "--queue mail --priority high --delay 5m --key k --key-window 1h --max-attempts 2 --timeout 9s"
    ran = run(
        "enqueue",
        "mail.send",
        "-",
        *options.split(),
        "--tag",
        "a",
        "--tag",
        "b",
        url=database_url,
        given='{"to": "j\\u00f6rg", "n": 1}',
    )
    again = run("enqueue", "mail.send", "{}", "--key", "k", "--json", url=database_url)

    task_id = int(ran.out)
    row = read(
        connection, task_id, "type", "payload", "queue", "priority", "max_attempts", "extract(epoch FROM timeout)::int",
        "tags", "status", "(run_at > now() + interval '4 minutes')",
    )  # fmt: skip
    assert ("mail.send", {"to": "jörg", "n": 1}, "mail", 75, 2, 9, ["a", "b"], "scheduled", True) == row
    assert {"id": task_id, "created": False} == json.loads(again.out)
    assert "the task type 'mail.send' is not declared yet" in ran.err


def test_a_payload_is_checked_as_pythons_enqueue_does(
    database_url: str, connection: psycopg.Connection
) -> None:
    """A value that would not come back unchanged is refused by name, and nothing is enqueued."""
    for text in (
        '{"a": "\\u0000"}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": ' + "[" * 70 + "]" * 70 + "}",
        "NaN",
        "\udc80",
    ):
        ran = run("enqueue", "mail", "-", url=database_url, given=text.encode("utf-8", "replace").decode())
        assert ran.code in (1, 2), text[:20]
        assert "rror: " in ran.err
    assert 0 == one(connection, "SELECT count(*) FROM orchestrator.tasks")


def test_a_producer_may_enqueue_from_the_command_line(
    database_url: str, connection: psycopg.Connection
) -> None:
    """It may not read the schema's revision, and does not need to."""
    name = f"person_{connection.info.dbname[-12:]}"
    connection.execute(f"CREATE ROLE {name} LOGIN".encode())
    connection.execute(f"GRANT orchestrator_producer TO {name}".encode())
    try:
        url = database_url.replace("user=postgres", f"user={name}").replace("postgres@", f"{name}@")
        enqueued = run("enqueue", "mail", url=url)
        looked = run("queues", "list", url=url)
    finally:
        connection.execute(f"DROP OWNED BY {name}".encode())
        connection.execute(f"DROP ROLE {name}".encode())

    assert 0 == enqueued.code, enqueued
    assert 1 == looked.code
    assert "to look, a role needs orchestrator_reader" in looked.err


def test_workers_are_listed_and_drained(database_url: str, connection: psycopg.Connection) -> None:
    """With their used slots and their last beats."""
    worker = sleeping_worker(connection, "mail")
    connection.execute(
        "UPDATE orchestrator.workers SET host = 'db-1', pid = 7, capacity = 20 WHERE id = %s", [worker]
    )
    put(connection, "running", worker_id=worker)
    listed = run("workers", "list", url=database_url).out
    drained = run("workers", "drain", "db-1:7", url=database_url)
    again = run("workers", "drain", str(worker)[:8], url=database_url)
    stopped = run("workers", "stop", "7", "--grace", "0", url=database_url)

    assert "db-1:7" in listed
    assert "1/20" in listed
    assert "worker db-1:7 drains: it holds 1 task\n" == drained.out
    assert "worker db-1:7 is ending already: it holds 1 task\n" == again.out
    assert "worker db-1:7 had to give back 1 task, and ends when its handlers let it" in stopped.out


def test_a_worker_that_is_dead_is_not_waited_for(database_url: str, connection: psycopg.Connection) -> None:
    """It cannot end: its tasks are given to others at once."""
    worker = sleeping_worker(connection, "mail")
    connection.execute("UPDATE orchestrator.workers SET beat_at = beat_at - interval '1 minute'")
    put(connection, "running", worker_id=worker)
    stopped = run("workers", "stop", "host:1", "--grace", "5", url=database_url)

    assert "worker host:1 is gone: it had to give back 1 task\n" == stopped.out


def test_versions_are_shown_with_and_without_a_database(database_url: str, empty_database_url: str) -> None:
    """Of the program, the schema, the server."""
    alone, there, empty = (
        run("version"),
        run("version", url=database_url),
        run("version", url=empty_database_url),
    )

    assert f"orchestrator {__version__}, which brings schema 0002\n" == alone.out
    assert "the database has schema 0002, on PostgreSQL " in there.out
    assert "the database has schema nothing yet" in empty.out
