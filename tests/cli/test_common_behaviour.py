"""Common behaviour of all commands: variables for flags, "did you mean", a closed pipe."""

import os
import subprocess
from pathlib import Path

import click
import psycopg
import pytest

from orchestrator.cli import orchestrator
from orchestrator.cli.environment_variables import meant, refuse_slips
from orchestrator.cli.group import Commands, walked
from orchestrator.config import COMMANDS, PREFIX, Config
from orchestrator.errors import ConfigError
from tests.cli import in_process
from tests.forked import REPOSITORY
from tests.patience import PATIENCE_SECONDS, eventually
from tests.schema.rows import put
from tests.worker.processes import command, start, surroundings, worker

SHOP = "tests.worker.tasks:app"


def test_a_flags_variable_is_no_slip_of_a_setting() -> None:
    """`Config` ignores variables of command flags. So it must know all of them, and no setting may begin like one."""
    assert set(orchestrator.commands) <= COMMANDS
    assert Config() == Config.load(
        {"ORCHESTRATOR_WORKER_CONCURRENCY": "7", "ORCHESTRATOR_TASKS_LIST_STATUS": "x"}
    )
    for name in Config.__dataclass_fields__:
        assert name.partition("_")[0] not in COMMANDS or "_" not in name


def test_real_slips_are_still_refused() -> None:
    """A misspelt setting by `Config`, a misspelt flag by the command line."""
    with pytest.raises(ConfigError, match="did you mean ORCHESTRATOR_CONCURRENCY"):
        Config.load({"ORCHESTRATOR_CONCURENCY": "7"})
    assert "ORCHESTRATOR_WORKER_GRACE" == meant(orchestrator, "ORCHESTRATOR_WORKER_GRACEE", PREFIX)


@pytest.mark.parametrize(
    "name",
    [
        "ORCHESTRATOR_WORKER_GRACE", "ORCHESTRATOR_WORKER_IMAGE", "ORCHESTRATOR_WORKER_SERVICE_HOST",
        "ORCHESTRATOR_VERSION", "ORCHESTRATOR_NOTHING_OF_OURS", "ORCHESTRATOR_WORKER_", "ORCHESTRATOR_",
    ],
)  # fmt: skip
def test_correct_and_foreign_variables_are_accepted(name: str) -> None:
    """A cluster sets variables with similar names."""
    refuse_slips(orchestrator, {name: "1"})
    assert Config() == Config.load({name: "1"})


@pytest.mark.parametrize("service", ["ORCHESTRATOR", "ORCHESTRATOR_WORKER", "ORCHESTRATOR_METRICS"])
def test_variables_of_kubernetes_services_are_accepted(service: str) -> None:
    """Each pod has the variables of each service, and a service may have a name like ours."""
    injected = {
        "SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "9464", "SERVICE_PORT_METRICS": "9464", "PORT": "tcp://10.0.0.1:9464",
        "PORT_9464_TCP": "tcp://10.0.0.1:9464", "PORT_9464_TCP_ADDR": "10.0.0.1", "PORT_9464_TCP_PROTO": "tcp",
    }  # fmt: skip
    environment = {f"{service}_{name}": text for name, text in injected.items()}

    refuse_slips(orchestrator, environment)

    assert Config() == Config.load(environment)


def test_a_slip_in_a_flags_variable_is_a_sentence() -> None:
    """With any command: a silent error would appear only in production."""
    done = in_process.run("migrate", "--check", ORCHESTRATOR_WORKER_CONCURENCY="3")

    assert (1, "") == (done.code, done.out)
    assert (
        "error: ORCHESTRATOR_WORKER_CONCURENCY is not a flag's variable; "
        "did you mean ORCHESTRATOR_WORKER_CONCURRENCY?\n" == done.err
    )


def test_a_version_in_the_environment_is_no_flag(database_url: str) -> None:
    """Deployments often set such a variable."""
    assert 0 == in_process.run("migrate", "--check", url=database_url, ORCHESTRATOR_VERSION="1.2.3").code


def test_children_have_what_was_given_once(database_url: str, tmp_path: Path) -> None:
    """By a flag or by a variable. The flag's variable overrides the setting's, and a flag overrides both."""
    variables = {
        "ORCHESTRATOR_WORKER_PROCESSES": "2",
        "ORCHESTRATOR_PROCESSES": "3",
        "ORCHESTRATOR_WORKER_CONCURRENCY": "5",
        "ORCHESTRATOR_CONCURRENCY": "6",
        "ORCHESTRATOR_WORKER_QUEUES": "a,b",
        "ORCHESTRATOR_WORKER_LOG_LEVEL": "error",
    }
    with worker(database_url, tmp_path / "log", "-q", "c", "--log-level", "info", **variables) as parent:
        eventually(lambda: parent.log.count('"worker started"') == 2, "both serve")
        lines = [line for line in parent.events() if line["event"] == "worker started"]
        parent.popen.terminate()
        assert 0 == parent.wait(), parent.log

    assert [(5, ["c"])] * 2 == [(line["concurrency"], line["queues"]) for line in lines]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["wroker"], "No such command 'wroker'. Did you mean orchestrator worker or orchestrator workers?"),
        (["migrat"], "Did you mean orchestrator migrate?"),
        (["\x1b[2Jzzzz"], "No such command '\\x1b[2Jzzzz'."),
    ],
)
def test_an_unknown_command_gets_a_suggestion(words: list[str], sentence: str) -> None:
    """Exit status 2, and no untrusted text reaches the terminal."""
    done = in_process.run(*words)

    assert (2, "") == (done.code, done.out)
    assert sentence in done.err
    assert "\x1b" not in done.err


def test_a_command_without_its_group_gets_a_suggestion() -> None:
    """The message names the group."""
    whole = Commands(
        commands=[Commands("tasks", commands=[click.Command("requeue")]), click.Command("worker")]
    )

    assert ["tasks requeue"] == whole.meant("requeue")
    assert ["worker"] == whole.meant("workr")
    assert [] == whole.meant("xyzzy")


def test_every_group_suggests_what_was_meant() -> None:
    """Also groups that other modules define."""
    assert [] == [
        path
        for path, each in walked(orchestrator)
        if isinstance(each, click.Group) and not isinstance(each, Commands)
    ]


def test_a_closed_pipe_ends_it_quietly() -> None:
    """As with any tool: 128 + SIGPIPE, without a message."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as nobody_reads:
        done = subprocess.run(
            command("bench", "--list"), env=surroundings(None), cwd=REPOSITORY, stdout=nobody_reads,
            stderr=subprocess.PIPE, text=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip

    assert (141, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("words", ["status", "status --json", "tasks export", "bench --list"])
def test_output_that_cannot_be_written_is_a_sentence(
    database_url: str, connection: psycopg.Connection, words: str, tmp_path: Path
) -> None:
    """For example with a full disk: one message, and the status is not 0."""
    put(connection)
    err = tmp_path / "err"
    process = start(*words.split(), env=surroundings(database_url), out=Path("/dev/full"), err=err)

    status = process.wait(PATIENCE_SECONDS)

    assert (1, "error: cannot write the output: No space left on device\n") == (status, err.read_text())


@pytest.mark.parametrize(
    "words",
    [
        ("queues", "pause", "\udcff"),
        ("queues", "pause", "a", "--reason", "\udcff"),
        ("cancel", "12", "--reason", "\udcff"),
    ],
)
def test_bytes_that_are_no_text_are_refused_with_a_sentence(
    database_url: str, connection: psycopg.Connection, words: tuple[str, ...]
) -> None:
    """Bytes that are not UTF-8 arrive as surrogates, which no database accepts."""
    put(connection, queue="a")
    given = ("tasks", *words) if words[0] == "cancel" else words
    ran = in_process.run(*given, url=database_url)

    assert 1 == ran.code
    assert "error: what was given is no text in UTF-8" in ran.err
