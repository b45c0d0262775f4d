"""`orchestrator tasks` and `failures`, as a person and a script use them."""

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


class Said:
    """What a command printed, and how it ended."""

    def __init__(self, status: int, printed: str, told: str) -> None:
        self.status, self.printed, self.told = status, printed, told


@pytest.fixture
def say(database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command in this process, on the test's database, without a terminal."""
    monkeypatch.setenv("ORCHESTRATOR_DATABASE_URL", database_url)

    def run_here(*words: str) -> Said:
        monkeypatch.setattr("sys.argv", ["orchestrator", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Said(int(ended.value.code or 0), printed.out, printed.err)

    return run_here


def dead(connection: psycopg.Connection, **columns: object) -> int:
    error = Jsonb({"class": "OSError", "message": "no answer after 5 s", "traceback": "Traceback\ntoken=abc"})
    return put(connection, "dead_letter", **({"error": error} | columns))


def test_a_list_is_filtered_and_goes_on(say: Any, connection: psycopg.Connection) -> None:
    """The newest first; where there are more it says how to go on."""
    ids = [put(connection, payload=Jsonb({"user_id": 42})) for _ in range(3)]
    put(connection, payload=Jsonb({"user_id": "42"}))

    first = say("tasks", "list", "payload.user_id=42", "--limit", "2", "--json")
    rest = say("tasks", "list", "payload.user_id=42", "--after", str(ids[1]), "--json")
    told = say("tasks", "list", "--limit", "2")

    assert ids[:0:-1] == [task["id"] for task in json.loads(first.printed)]
    assert [ids[0]] == [task["id"] for task in json.loads(rest.printed)]
    assert f"there are more: --after {ids[2]}" in told.told


def test_a_list_says_why_nothing_is_there(say: Any, connection: psycopg.Connection) -> None:
    """A mistyped queue, a number that is text."""
    said = say("tasks", "list", "-q", "defualt", "payload.user_id=42")

    assert 0 == said.status
    assert "no task matches. There is no queue 'defualt'; did you mean 'default'?" in said.printed
    assert "for text write payload.user_id='\"42\"'" in said.printed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["list", "--status", "ded"], "did you mean dead"),
        (["list", "--older-than", "yesterday"], "is no age"),
        (["list", "payload.a"], "says no value"),
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
def test_a_wrong_command_line_is_told(say: Any, words: list[str], told: str) -> None:
    """With status 2, and what to type instead."""
    said = say("tasks", *words)

    assert (2, "") == (said.status, said.printed)
    assert told in said.told


def test_named_tasks_are_acted_on_one_by_one(say: Any, connection: psycopg.Connection) -> None:
    """What is refused does not keep it from the others, and shows in the status."""
    lost, done = dead(connection), put(connection, "completed")

    said = say("tasks", "cancel", str(done), "4711", str(lost))
    requeued = say("tasks", "requeue", str(lost), "--reason", "the server is back")

    assert (1, "") == (said.status, said.printed)
    assert "It has already finished" in said.told
    assert "there is no task 4711" in said.told
    assert "It will not run again by itself" in said.told
    assert (0, f"task {lost} requeued\n") == (requeued.status, requeued.printed)
    assert "the server is back" == one(connection, "SELECT reason FROM orchestrator.audit")


def test_many_are_shown_first_and_need_a_yes(say: Any, connection: psycopg.Connection) -> None:
    """Without a terminal by --yes; --dry-run and a missing yes do nothing; --limit is kept."""
    connection.execute(DEAD_LETTERS, [20])

    dry = say("tasks", "requeue", "--type", "mail", "--dry-run")
    silent = say("tasks", "requeue", "--type", "mail")
    some = say("tasks", "requeue", "--type", "mail", "--yes", "--limit", "3")
    rest = say("tasks", "requeue", "--type", "mail", "--yes", "--reason", "why")
    none = say("tasks", "requeue", "--type", "mail", "--yes")

    assert [0, 2, 0, 0, 0] == [said.status for said in (dry, silent, some, rest, none)]
    assert "20 tasks will run again" in dry.printed
    assert "add --yes" in silent.told
    assert "3 of 20 tasks will run again" in some.printed
    assert "3 tasks requeued" in some.printed
    assert "17 tasks requeued" in rest.printed
    assert "no dead_letter task matches" in none.printed
    assert [1] * 20 == list(requeues(connection).values())


def test_at_a_terminal_a_person_is_asked(database_url: str, connection: psycopg.Connection) -> None:
    """No is no."""
    connection.execute(DEAD_LETTERS, [20])
    with at_terminal("tasks", "delete", "--status", "dead", url=database_url, cwd=Path.cwd()) as screen:
        screen.shows("Go on? [y/N]")
        screen.types("n\n")
        assert 130 == screen.ends()

    assert "20 tasks will be deleted, and cannot be had back" in screen.shown
    assert 20 == one(connection, "SELECT count(*) FROM orchestrator.tasks_dead")


def test_killed_half_way_and_started_again_it_does_the_rest(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Nothing twice, nothing left; and what has to be said for that was said before it began."""
    connection.execute(DEAD_LETTERS, [6000])
    sleeping_worker(connection, "default", seconds=3600)  # beside a worker it rests, and is met half-way
    words = ["tasks", "requeue", "--status", "dead_letter", "--yes"]
    told = tmp_path / "told"
    process = start(*words, env=surroundings(database_url), out=told)
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

    assert "if it is interrupted: to go on, the same command with --older-than 2" in told.read_text()
    assert 0 == again.returncode, again.stderr
    assert 0 < half < 6000
    assert f"{6000 - half:,} tasks requeued" in again.stdout
    assert [1] * 6000 == list(requeues(connection).values())


def test_interrupted_it_says_how_to_go_on(database_url: str, connection: psycopg.Connection) -> None:
    """After a yes, Ctrl-C: what was done is done, and what failed again since is not taken by what it says."""
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


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_end_it_says_how_to_go_on(
    database_url: str, connection: psycopg.Connection, told: signal.Signals, tmp_path: Path
) -> None:
    """As after Ctrl-C; and of a limit, what is left of it."""
    connection.execute(DEAD_LETTERS, [6000])
    sleeping_worker(connection, "default", seconds=3600)
    words = ["tasks", "requeue", "--status", "dead_letter", "--limit", "5999", "--yes"]
    log = tmp_path / "log"
    process = start(*words, env=surroundings(database_url), out=log)
    try:
        eventually(
            lambda: one(connection, "SELECT count(*) FROM orchestrator.tasks_live") > 0, "it has begun"
        )
        process.send_signal(told)
        status = process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()

    said = log.read_text()
    stopped = re.search(r"stopped: (\S+) requeued; to go on, .* --older-than 2\S+ --limit (\d+)", said)
    assert 130 == status
    assert stopped is not None, said
    assert 5999 == int(stopped[1].replace(",", "")) + int(stopped[2])


def test_a_task_that_is_locked_keeps_no_other_from_being_done(
    say: Any, connection: psycopg.Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named; the others are done."""
    monkeypatch.setattr(bulk, "TRIES", 1)
    locked, free = put(connection), put(connection)
    with psycopg.connect(database_url) as hand:
        hand.execute("SELECT FROM orchestrator.tasks_live WHERE id = %s FOR UPDATE", [locked])
        said = say("tasks", "cancel", str(locked), str(free))

    assert 1 == said.status
    assert f"error: task {locked}: another transaction's lock was in the way" in said.told
    assert f"task {free} cancelled\n" == said.printed


def test_what_somebody_has_locked_is_told(
    say: Any, connection: psycopg.Connection, database_url: str
) -> None:
    """The others are done, and the status says that it was not all."""
    connection.execute(DEAD_LETTERS, [10])
    with psycopg.connect(database_url) as hand:
        hand.execute("SELECT FROM orchestrator.tasks_dead ORDER BY id LIMIT 3 FOR UPDATE")
        said = say("tasks", "requeue", "--status", "dead_letter", "--yes")

    assert 1 == said.status
    assert "7 tasks requeued" in said.printed
    assert "3 more are locked by another transaction" in said.told


def test_a_task_is_shown_without_its_secrets(say: Any, connection: psycopg.Connection) -> None:
    """Masked in payload and traceback, unless asked for; as JSON too."""
    payload = Jsonb({"user": {"name": "Ada", "api_key": "abc"}, "list": [{"Password": "abc"}]})
    task_id = dead(
        connection, payload=payload, metadata=Jsonb({"authorization": "abc"}), tags=["t"], idempotency_key="k"
    )

    masked, document = say("tasks", "show", str(task_id)), say("tasks", "show", str(task_id), "--json")
    unmasked = say("tasks", "show", str(task_id), "--unmasked")

    assert "abc" not in masked.printed + document.printed
    for piece in ("dead_letter", "Ada", "no answer after 5 s", "timeline", "created"):
        assert piece in masked.printed
    assert "***" == json.loads(document.printed)["task"]["payload"]["user"]["api_key"]
    assert 4 == unmasked.printed.count("abc")


def test_a_task_that_is_not_there_is_told(say: Any) -> None:
    """By a sentence."""
    said = say("tasks", "show", "4711")

    assert (1, "") == (said.status, said.printed)
    assert "there is no task 4711" in said.told


def test_hostile_text_breaks_no_screen(say: Any, connection: psycopg.Connection) -> None:
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
        said = say(*words)

        assert 0 == said.status, words
        assert not {"\x1b", "\u202e", "\x9b"} & set(said.printed + said.told), words


def test_an_export_is_whole(say: Any, connection: psycopg.Connection) -> None:
    """Every task a line, its numbers to the last digit; secrets only unmasked."""
    big = "123456789012345678901234567890.10"
    task_id = put(connection, payload=Jsonb({"token": "abc", "ü\u2028": 1}))
    connection.execute(
        "UPDATE orchestrator.tasks_live SET payload = payload || jsonb_build_object('n', %s::text::numeric)",
        [big],
    )

    masked = json.loads(say("tasks", "export").printed)
    unmasked = say("tasks", "export", "--unmasked").printed

    assert (task_id, "***", 1) == (masked["id"], masked["payload"]["token"], masked["payload"]["ü\u2028"])
    assert big in unmasked
    assert "abc" == json.loads(unmasked)["payload"]["token"]


def test_a_spreadsheet_runs_nothing_of_an_export(say: Any, connection: psycopg.Connection) -> None:
    """What it would take for a formula is quoted; a number stays one."""
    texts = ["=1+1", "+1", "-1", "-1+1", "@x", "plain", '"quoted", with a comma']
    for text in texts:
        put(connection, idempotency_key=text)

    rows = list(csv.DictReader(io.StringIO(say("tasks", "export", "--format", "csv").printed)))

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
        told = process.stderr.read()

    assert (141, b"") == (process.returncode, told)


def test_failures_are_listed_and_a_group_is_acted_on(say: Any, connection: psycopg.Connection) -> None:
    """Requeue one, discard another; an unknown name is told."""
    for number in range(4):
        dead(connection, error=Jsonb({"class": "OSError", "message": f"no answer after {number} s"}))
    other = dead(connection, type="video")

    groups = json.loads(say("failures", "--json").printed)
    requeued = say("failures", "requeue", groups[0]["group_id"], "--yes", "--reason", "why")
    discarded = say("failures", "discard", groups[1]["group_id"][:6], "--yes")
    unknown = say("failures", "requeue", "zz", "--yes")

    assert [(4, "no answer after <n> s"), (1, "no answer after <n> s")] == [
        (group["dead_letters"], group["message"]) for group in groups
    ]
    assert other == groups[1]["sample_id"]
    assert "4 tasks requeued" in requeued.printed
    assert "1 task deleted" in discarded.printed
    assert (1, True) == (unknown.status, "there is no group 'zz'" in unknown.told)
    assert "nothing fails" in say("failures").printed


def test_forty_columns_show_everything(database_url: str, connection: psycopg.Connection) -> None:
    """A list becomes records, and nothing is cut."""
    task_id = dead(connection, type="a.rather.long.name.of.a.type", queue="a.rather.long.queue")
    for words in (["failures"], ["tasks", "show", str(task_id)]):
        with at_terminal(*words, url=database_url, cwd=Path.cwd(), COLUMNS="40") as screen:
            assert 0 == screen.ends()

        assert "a.rather.long.name.of.a.type" in "".join(screen.shown.split())
        assert all(len(line) <= 40 for line in screen.shown.splitlines()), screen.shown
