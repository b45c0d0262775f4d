"""`orchestrator tasks` and `failures`, used by a person and by a script."""

import csv
import io
import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator.cli import main
from orchestrator.operate import bulk
from tests.operate.test_bulk import requeues
from tests.patience import PATIENCE_SECONDS, eventually
from tests.schema.rows import one, put, sleeping_worker
from tests.schema.test_operator_functions import DEAD_LETTERS
from tests.terminal import at_terminal
from tests.worker.processes import command, run, start, surroundings

HOSTILE = "\x1b[2J\u202e'\"%s {} \n=cmd|"


class Printed:
    """The status and the output of a command."""

    def __init__(self, status: int, output: str, errors: str) -> None:
        self.status, self.output, self.errors = status, output, errors


@pytest.fixture
def run_command(
    database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Run a command in this process, on the test's database, without a terminal."""
    monkeypatch.setenv("ORCHESTRATOR_DATABASE_URL", database_url)

    def run_here(*words: str) -> Printed:
        monkeypatch.setattr("sys.argv", ["orchestrator", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Printed(int(ended.value.code or 0), printed.out, printed.err)

    return run_here


def dead(connection: psycopg.Connection, **columns: object) -> int:
    error = Jsonb({"class": "OSError", "message": "no answer after 5 s", "traceback": "Traceback\ntoken=abc"})
    return put(connection, "dead_letter", **({"error": error} | columns))


def test_a_list_is_filtered_and_goes_on(run_command: Any, connection: psycopg.Connection) -> None:
    """The newest first; if there are more, a line shows how to continue."""
    ids = [put(connection, payload=Jsonb({"user_id": 42})) for _ in range(3)]
    put(connection, payload=Jsonb({"user_id": "42"}))

    first = run_command("tasks", "list", "payload.user_id=42", "--limit", "2", "--json")
    rest = run_command("tasks", "list", "payload.user_id=42", "--after", str(ids[1]), "--json")
    listed = run_command("tasks", "list", "--limit", "2")

    assert ids[:0:-1] == [task["id"] for task in json.loads(first.output)]
    assert [ids[0]] == [task["id"] for task in json.loads(rest.output)]
    assert f"there are more: --after {ids[2]}" in listed.errors


def test_an_empty_list_shows_why_it_is_empty(run_command: Any, connection: psycopg.Connection) -> None:
    """A mistyped queue, a number that is a text."""
    ran = run_command("tasks", "list", "-q", "defualt", "payload.user_id=42")

    assert 0 == ran.status
    assert "no task matches. There is no queue 'defualt'; did you mean 'default'?" in ran.output
    assert "for text write payload.user_id='\"42\"'" in ran.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "--status", "ded"], "did you mean dead"),
        (["list", "--older-than", "yesterday"], "is no age"),
        (["list", "payload.a"], "has no value"),
        (["show", "abc"], "is no id of a task"),
        (["show", "99999999999999999999"], "is no id of a task"),
        (["list", "--after", "99999999999999999999"], "is not in the range"),
        (["requeue"], "say which"),
        (["requeue", "1", "--queue", "mail"], "not both"),
        (["requeue", "--status", "pending"], "ready to run already"),
        (["delete", "--queue", "mail"], "say the status"),
        (["priority", "urgent", "1"], "is no priority"),
        (["requeu", "1"], "Did you mean orchestrator tasks requeue"),
    ],
)
def test_a_wrong_command_line_is_reported(run_command: Any, words: list[str], message: str) -> None:
    """With status 2, and what to type instead."""
    ran = run_command("tasks", *words)

    assert (2, "") == (ran.status, ran.output)
    assert message in ran.errors


def test_named_tasks_are_acted_on_one_by_one(run_command: Any, connection: psycopg.Connection) -> None:
    """A refused task does not stop the others; the exit status shows it."""
    lost, done = dead(connection), put(connection, "completed")

    ran = run_command("tasks", "cancel", str(done), "4711", str(lost))
    requeued = run_command("tasks", "requeue", str(lost), "--reason", "the server is back")

    assert (1, "") == (ran.status, ran.output)
    assert "It has already finished" in ran.errors
    assert "there is no task 4711" in ran.errors
    assert "It will not run again by itself" in ran.errors
    assert (0, f"task {lost} requeued\n") == (requeued.status, requeued.output)
    assert "the server is back" == one(connection, "SELECT reason FROM orchestrator.audit")


def test_many_are_shown_first_and_need_a_yes(run_command: Any, connection: psycopg.Connection) -> None:
    """Without a terminal by --yes. --dry-run and a missing yes change nothing, and --limit applies."""
    connection.execute(DEAD_LETTERS, [20])

    dry = run_command("tasks", "requeue", "--type", "mail", "--dry-run")
    silent = run_command("tasks", "requeue", "--type", "mail")
    some = run_command("tasks", "requeue", "--type", "mail", "--yes", "--limit", "3")
    rest = run_command("tasks", "requeue", "--type", "mail", "--yes", "--reason", "why")
    none = run_command("tasks", "requeue", "--type", "mail", "--yes")

    assert [0, 2, 0, 0, 0] == [ran.status for ran in (dry, silent, some, rest, none)]
    assert "20 tasks will run again" in dry.output
    assert "add --yes" in silent.errors
    assert "3 of 20 tasks will run again" in some.output
    assert "3 tasks requeued" in some.output
    assert "17 tasks requeued" in rest.output
    assert "no dead_letter task matches" in none.output
    assert [1] * 20 == list(requeues(connection).values())


def test_at_a_terminal_the_command_asks(database_url: str, connection: psycopg.Connection) -> None:
    """A no changes nothing."""
    connection.execute(DEAD_LETTERS, [20])
    with at_terminal("tasks", "delete", "--status", "dead", url=database_url, cwd=Path.cwd()) as screen:
        screen.shows("Go on? [y/N]")
        screen.types("n\n")
        assert 130 == screen.ends()

    assert "20 tasks will be deleted, and cannot be had back" in screen.shown
    assert 20 == one(connection, "SELECT count(*) FROM orchestrator.tasks_dead")


def test_a_killed_command_does_the_rest_when_started_again(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """No task twice, and none left. The necessary option was printed before it began."""
    connection.execute(DEAD_LETTERS, [6000])
    sleeping_worker(connection, "default", seconds=3600)  # beside a worker it rests, and is met half-way
    words = ["tasks", "requeue", "--status", "dead_letter", "--yes"]
    output = tmp_path / "told"
    process = start(*words, env=surroundings(database_url), out=output)
    try:
        eventually(
            lambda: one(connection, "SELECT count(*) FROM orchestrator.tasks_live") > 0, "it has begun"
        )
    finally:
        process.kill()
        process.wait()
    eventually(
        lambda: one(
            connection, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'orchestrator tasks%'"
        ) == 0,
        "its session has ended",
    )  # fmt: skip
    half = one(connection, "SELECT count(*) FROM orchestrator.tasks_live")

    again = run(*words, url=database_url)

    assert "if it is interrupted: to go on, the same command with --older-than 2" in output.read_text()
    assert 0 == again.returncode, again.stderr
    assert 0 < half < 6000
    assert f"{6000 - half:,} tasks requeued" in again.stdout
    assert [1] * 6000 == list(requeues(connection).values())


def test_an_interrupted_command_shows_how_to_go_on(database_url: str, connection: psycopg.Connection) -> None:
    """Ctrl-C after a yes: finished changes stay, and the printed command does not touch tasks that have failed again
    since."""
    connection.execute(DEAD_LETTERS, [6000])
    sleeping_worker(connection, "default", seconds=3600)
    words = ["tasks", "requeue", "--status", "dead_letter"]
    with at_terminal(*words, url=database_url, cwd=Path.cwd()) as screen:
        screen.shows("Go on? [y/N]")
        screen.types("y\n")
        eventually(
            lambda: one(connection, "SELECT count(*) FROM orchestrator.tasks_live") > 0, "it has begun"
        )
        screen.presses_ctrl_c()
        assert 130 == screen.ends()

    assert "stopped: " in screen.shown
    assert "to go on, the same command with --older-than 2" in screen.shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_command_shows_how_to_go_on(
    database_url: str, connection: psycopg.Connection, number: signal.Signals, tmp_path: Path
) -> None:
    """As after Ctrl-C; with the rest of a limit."""
    connection.execute(DEAD_LETTERS, [6000])
    sleeping_worker(connection, "default", seconds=3600)
    words = ["tasks", "requeue", "--status", "dead_letter", "--limit", "5999", "--yes"]
    log = tmp_path / "log"
    process = start(*words, env=surroundings(database_url), out=log)
    try:
        eventually(
            lambda: one(connection, "SELECT count(*) FROM orchestrator.tasks_live") > 0, "it has begun"
        )
        process.send_signal(number)
        status = process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()

    output = log.read_text()
    stopped = re.search(r"stopped: (\S+) requeued; to go on, .* --older-than 2\S+ --limit (\d+)", output)
    assert 130 == status
    assert stopped is not None, output
    assert 5999 == int(stopped[1].replace(",", "")) + int(stopped[2])


def test_a_task_that_is_locked_keeps_no_other_from_being_done(
    run_command: Any, connection: psycopg.Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command names it, and changes the others."""
    monkeypatch.setattr(bulk, "TRIES", 1)
    locked, free = put(connection), put(connection)
    with psycopg.connect(database_url) as operator:
        operator.execute("SELECT FROM orchestrator.tasks_live WHERE id = %s FOR UPDATE", [locked])
        ran = run_command("tasks", "cancel", str(locked), str(free))

    assert 1 == ran.status
    assert f"error: task {locked}: another transaction's lock was in the way" in ran.errors
    assert f"task {free} cancelled\n" == ran.output


def test_locked_tasks_are_reported(
    run_command: Any, connection: psycopg.Connection, database_url: str
) -> None:
    """The others are changed, and the exit status shows that some were not."""
    connection.execute(DEAD_LETTERS, [10])
    with psycopg.connect(database_url) as operator:
        operator.execute("SELECT FROM orchestrator.tasks_dead ORDER BY id LIMIT 3 FOR UPDATE")
        ran = run_command("tasks", "requeue", "--status", "dead_letter", "--yes")

    assert 1 == ran.status
    assert "7 tasks requeued" in ran.output
    assert "3 more are locked by another transaction" in ran.errors


def test_a_task_is_shown_without_its_secrets(run_command: Any, connection: psycopg.Connection) -> None:
    """Masked in payload and traceback, unless requested otherwise; as JSON, too."""
    payload = Jsonb({"user": {"name": "Ada", "api_key": "abc"}, "list": [{"Password": "abc"}]})
    task_id = dead(
        connection, payload=payload, metadata=Jsonb({"authorization": "abc"}), tags=["t"], idempotency_key="k"
    )

    masked, document = (
        run_command("tasks", "show", str(task_id)),
        run_command("tasks", "show", str(task_id), "--json"),
    )
    unmasked = run_command("tasks", "show", str(task_id), "--unmasked")

    assert "abc" not in masked.output + document.output
    for piece in ("dead_letter", "Ada", "no answer after 5 s", "timeline", "created"):
        assert piece in masked.output
    assert "***" == json.loads(document.output)["task"]["payload"]["user"]["api_key"]
    assert 4 == unmasked.output.count("abc")


def test_a_missing_task_is_reported(run_command: Any) -> None:
    """With a sentence."""
    ran = run_command("tasks", "show", "4711")

    assert (1, "") == (ran.status, ran.output)
    assert "there is no task 4711" in ran.errors


def test_hostile_text_breaks_no_screen(run_command: Any, connection: psycopg.Connection) -> None:
    """In lists, in one task, in failures and in an export."""
    task_id = dead(
        connection, queue="q\u202e", type="t\x9b2J", tags=[HOSTILE], idempotency_key=HOSTILE,
        payload=Jsonb({HOSTILE: HOSTILE}),
        error=Jsonb({"class": HOSTILE, "message": HOSTILE, "traceback": HOSTILE}),
    )  # fmt: skip
    for words in (
        ["tasks", "list"], ["tasks", "list", "--json"], ["tasks", "show", str(task_id)],
        ["tasks", "show", str(task_id), "--json"], ["failures"], ["failures", "--json"], ["tasks", "export"],
        ["tasks", "export", "--unmasked"], ["tasks", "export", "--format", "csv"],
        ["tasks", "delete", "-s", "dead", "--dry-run"],
    ):  # fmt: skip
        ran = run_command(*words)

        assert 0 == ran.status, words
        assert not {"\x1b", "\u202e", "\x9b"} & set(ran.output + ran.errors), words


def test_an_export_is_complete(run_command: Any, connection: psycopg.Connection) -> None:
    """Every task is a line, with all digits of its numbers; secrets only unmasked."""
    big = "123456789012345678901234567890.10"
    task_id = put(connection, payload=Jsonb({"token": "abc", "ü\u2028": 1}))
    connection.execute(
        "UPDATE orchestrator.tasks_live SET payload = payload || jsonb_build_object('n', %s::text::numeric)",
        [big],
    )

    masked = json.loads(run_command("tasks", "export").output)
    unmasked = run_command("tasks", "export", "--unmasked").output

    assert (task_id, "***", 1) == (masked["id"], masked["payload"]["token"], masked["payload"]["ü\u2028"])
    assert big in unmasked
    assert "abc" == json.loads(unmasked)["payload"]["token"]


def test_a_spreadsheet_runs_nothing_of_an_export(run_command: Any, connection: psycopg.Connection) -> None:
    """Text that it would take for a formula is quoted; a number stays a number."""
    texts = ["=1+1", "+1", "-1", "-1+1", "@x", "plain", '"quoted", with a comma']
    for text in texts:
        put(connection, idempotency_key=text)

    rows = list(csv.DictReader(io.StringIO(run_command("tasks", "export", "--format", "csv").output)))

    assert ["'=1+1", "+1", "-1", "'-1+1", "'@x", *texts[-2:]] == [row["key"] for row in rows]
    assert {"50"} == {row["priority"] for row in rows}


def test_an_export_into_a_closed_pipe_ends_quietly(database_url: str, connection: psycopg.Connection) -> None:
    """`| head -1`."""
    connection.execute(DEAD_LETTERS, [2000])
    with subprocess.Popen(
        command("tasks", "export"),
        env=surroundings(database_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"id": ')
        process.stdout.close()
        message = process.stderr.read()

    assert (141, b"") == (process.returncode, message)


def test_failures_are_listed_and_a_group_is_acted_on(
    run_command: Any, connection: psycopg.Connection
) -> None:
    """Requeue one, discard another; an unknown group is reported."""
    for number in range(4):
        dead(connection, error=Jsonb({"class": "OSError", "message": f"no answer after {number} s"}))
    other = dead(connection, type="video")

    groups = json.loads(run_command("failures", "--json").output)
    requeued = run_command("failures", "requeue", groups[0]["group_id"], "--yes", "--reason", "why")
    discarded = run_command("failures", "discard", groups[1]["group_id"][:6], "--yes")
    unknown = run_command("failures", "requeue", "zz", "--yes")

    assert [(4, "no answer after <n> s"), (1, "no answer after <n> s")] == [
        (group["dead_letters"], group["message"]) for group in groups
    ]
    assert other == groups[1]["sample_id"]
    assert "4 tasks requeued" in requeued.output
    assert "1 task deleted" in discarded.output
    assert (1, True) == (unknown.status, "there is no group 'zz'" in unknown.errors)
    assert "nothing fails" in run_command("failures").output


def test_forty_columns_show_everything(database_url: str, connection: psycopg.Connection) -> None:
    """A list becomes records, and nothing is cut."""
    task_id = dead(connection, type="a.rather.long.name.of.a.type", queue="a.rather.long.queue")
    for words in (["failures"], ["tasks", "show", str(task_id)]):
        with at_terminal(*words, url=database_url, cwd=Path.cwd(), COLUMNS="40") as screen:
            assert 0 == screen.ends()

        assert "a.rather.long.name.of.a.type" in "".join(screen.shown.split())
        assert all(len(line) <= 40 for line in screen.shown.splitlines()), screen.shown
