"""`orchestrator demo`: to its end, and interrupted at every step."""

import os
import re
import shlex
import signal
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from orchestrator.postgres import embedded
from tests.demo.left_over import assert_nothing_left, processes_of
from tests.patience import eventually
from tests.terminal import at_terminal
from tests.tiers import long
from tests.worker.processes import run

FEW = ("demo", "--tasks", "300")
ROW = re.compile(r"^(demo\.\w+|all)\s.*?((?:\s+[\d,]+){4})\s*$", re.MULTILINE)
TYPES = {"fast": 300, "slow": 60, "flaky": 150, "poisoned": 20, "delayed": 100, "keyed": 100, "probe": 60}
NOWHERE = "postgresql://nobody@127.0.0.1:1/production"


def table(shown: str) -> dict[str, list[int]]:
    """Read the table: type → tasks, completed, dead letters, failed attempts."""
    return {row[1]: [int(n.replace(",", "")) for n in row[2].split()] for row in ROW.finditer(shown)}


def table_in_database(connection: psycopg.Connection) -> dict[str, list[int]]:
    """Count the same by other statements than the demo's."""
    counts: dict[str, list[int]] = {}
    for kind, status, failed in connection.execute(
        "SELECT t.type, t.status, count(a.id) FROM orchestrator.tasks AS t"
        " LEFT JOIN orchestrator.attempts AS a ON a.task_id = t.id GROUP BY t.id, t.type, t.status"
    ).fetchall():
        row = counts.setdefault(kind, [0, 0, 0, 0])
        added = [1, status == "completed", status == "dead_letter", failed]
        row[:] = [old + new for old, new in zip(row, added, strict=True)]
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    return counts


def spoken_commands(shown: str) -> tuple[str, list[str], str]:
    """Return what the demo tells to type: psql's command, the statements, the worker's command."""
    psql, worker = (
        next(line for line in shown.splitlines() if f"orchestrator {name}" in line)
        for name in ("sql", "worker")
    )
    return psql, [line for line in shown.splitlines() if line.endswith(";")], worker


def typed(words: str, here: Path, *more: str) -> str:
    """Run a printed command as printed, and return what it prints."""
    _, *arguments = shlex.split(words)
    done = run(*arguments, *more, cwd=here)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_the_demo_runs_to_its_end_and_its_figures_are_true(here: Path) -> None:
    """The table agrees with the database, and all that it prints can be typed."""
    with at_terminal(*FEW, cwd=here) as demo:
        assert 0 == demo.ends(), demo.shown
        assert {} == processes_of(here)
        shown = demo.shown
    folder = here / ".orchestrator" / "demo"
    try:
        with closing(psycopg.connect(embedded.start(folder))) as connection:
            counted = table_in_database(connection)
            waits = connection.execute(
                "SELECT extract(epoch FROM started_at - created_at)::float8 FROM orchestrator.tasks"
                " WHERE type = 'demo.probe' ORDER BY 1"
            ).fetchall()
    finally:
        embedded.release(folder)
    psql, statements, worker = spoken_commands(shown)

    assert {f"demo.{kind}": number for kind, number in TYPES.items()} == {
        kind: numbers[0] for kind, numbers in counted.items() if kind != "all"
    }
    assert counted == table(shown)
    assert [790, 770, 20, 265] == counted["all"]
    p50, p95 = (float(found) for found in re.findall(r"p\d\d ([\d.]+) ms", shown))
    assert 1000 * waits[29][0] - 0.06 <= p50 <= 1000 * waits[30][0] + 0.06
    assert 1000 * waits[56][0] - 0.06 <= p95 <= 1000 * waits[57][0] + 0.06
    answers = [typed(psql, here, "-X", "-At", "-c", statement) for statement in statements]
    assert [5, 1, 4] == [len(answer.splitlines()) for answer in answers], answers
    typed(worker, here)
    assert "dead_letter" in typed(psql, here, "-X", "-c", statements[2])


@pytest.mark.long
def test_a_second_run_is_as_clean_as_the_first(here: Path) -> None:
    """And without a terminal: plain lines. The user's own database is left alone, and so are her settings."""
    runs = [run(*FEW, url=NOWHERE, cwd=here, ORCHESTRATOR_CONCURRENCY="1") for _ in range(2)]

    assert [(0, ""), (0, "")] == [(done.returncode, done.stderr) for done in runs]
    first, second = (table(done.stdout) for done in runs)
    assert [790, 770, 20, 265] == first["all"]
    assert first == second
    assert not any("\x1b" in done.stdout or "\r" in done.stdout for done in runs)
    assert all("790 of 790 tasks finished\n" in done.stdout for done in runs)


@pytest.mark.parametrize(
    "moment",
    ["/790", *map(long, ("Starting PostgreSQL", "Making the tables", "Starting 2 workers", "Enqueueing"))],
)
def test_ctrl_c_leaves_nothing_behind(here: Path, moment: str) -> None:
    """While the server starts, the tables are made, the workers start, tasks are enqueued, and run."""
    with at_terminal(*FEW, cwd=here) as demo:
        demo.shows(moment)

        demo.presses_ctrl_c()

        assert 130 == demo.ends(), demo.shown
        assert "Traceback" not in demo.shown
        assert "Interrupted. Nothing is left running." in demo.shown
        assert {} == processes_of(here)


@pytest.mark.long
def test_a_server_is_left_whole_by_ctrl_c_in_initdb(here: Path) -> None:
    """The next run finds a folder that it can use."""
    with at_terminal(*FEW, cwd=here) as demo:
        eventually(lambda: (here / ".orchestrator" / "demo" / "cluster.new").exists(), "initdb runs")
        demo.presses_ctrl_c()
        assert 130 == demo.ends(), demo.shown
        # initdb is let to end: half a cluster would be of no use to anybody.
        eventually(lambda: not processes_of(here), "nothing is left running")

    with at_terminal(*FEW, cwd=here) as demo:
        demo.shows("Enqueueing")
        demo.presses_ctrl_c()
        assert 130 == demo.ends(), demo.shown


@pytest.mark.long
def test_ctrl_c_again_does_not_wait(here: Path) -> None:
    """Twice is impatience, and still leaves nothing."""
    with at_terminal(*FEW, cwd=here) as demo:
        demo.shows("Enqueueing")

        demo.presses_ctrl_c()
        demo.presses_ctrl_c()

        assert 130 == demo.ends(), demo.shown
    assert_nothing_left(here)


@pytest.mark.long
def test_two_demos_at_once(here: Path) -> None:
    """The second says what to do; the first goes on, and a SIGTERM ends it like Ctrl-C."""
    with at_terminal(*FEW, cwd=here) as first:
        first.shows("Enqueueing")

        second = run(*FEW, cwd=here)

        assert (1, "") == (second.returncode, second.stdout)
        assert "Another demo runs in this folder" in second.stderr
        first.popen.send_signal(signal.SIGTERM)
        assert 143 == first.ends(), first.shown
        assert {} == processes_of(here)


def test_workers_do_not_outlive_a_demo_that_was_killed(here: Path) -> None:
    """The kernel tells them, since nobody else can."""
    with at_terminal(*FEW, cwd=here) as demo:
        demo.shows("Enqueueing")
        assert 2 == len(workers(here))

        demo.popen.kill()
        demo.popen.wait()

        assert_nothing_left(here)


@pytest.mark.long
def test_an_ended_worker_is_reported(here: Path) -> None:
    """With the end of its log; the rest is cleared away."""
    with at_terminal(*FEW, cwd=here) as demo:
        demo.shows("Enqueueing")

        os.kill(workers(here)[0], signal.SIGKILL)

        assert 1 == demo.ends(), demo.shown
        assert "error: a worker ended with status -9" in demo.shown
        assert {} == processes_of(here)


def test_a_database_that_no_demo_made_is_left_alone(here: Path) -> None:
    """The demo empties its own folder, and so must know it for its own."""
    (here / "pgdata" / "cluster").mkdir(parents=True)

    done = run("demo", "--data", "pgdata", cwd=here)

    assert (1, "") == (done.returncode, done.stdout)
    assert "holds a database that no demo made" in done.stderr
    assert ["cluster"] == [path.name for path in (here / "pgdata").iterdir()]


def test_a_folder_that_cannot_be_made_is_a_sentence(here: Path) -> None:
    """A file is in the way."""
    (here / "file").touch()

    done = run("demo", "--data", "file/demo", cwd=here)

    assert 1 == done.returncode
    assert "cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def workers(here: Path) -> list[int]:
    """Return the pids of the demo's workers."""
    return [pid for pid, line in processes_of(here).items() if "demo.exit_with_parent worker" in line]
