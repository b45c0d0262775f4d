"""At any end of a run, its database and its processes are gone."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from orchestrator import bench
from orchestrator.bench.environment import Environment, NotMeasured
from orchestrator.bench.result import Failed, Measure, Result
from orchestrator.bench.signals import Interrupted
from orchestrator.errors import OrchestratorError
from tests import servers
from tests.bench.conftest import TINY, Listener, Take
from tests.demo.left_over import command_lines
from tests.patience import PATIENCE_SECONDS, eventually
from tests.tiers import long
from tests.worker.processes import start, surroundings

Ask = Callable[[], set[str]]


class Broken(OrchestratorError):
    """A measure failed."""


def test_after_success(take: Take, left_over: Ask) -> None:
    """And it was there in between."""
    seen = list[set[str]]()

    def look(_environment: Environment) -> Iterator[Result]:
        seen.append(left_over())
        yield from ()

    take(Measure("look", "", look))

    assert ([1], set()) == ([len(names) for names in seen], left_over())


def test_a_failed_measure_is_reported_and_the_others_go_on(server_url: str, left_over: Ask) -> None:
    """The exit status tells it, too."""

    def fail(_environment: Environment) -> Iterator[Result]:
        raise NotMeasured("it did not end")

    listener = Listener()
    measures = [Measure("one", "", fail), Measure("two", "", lambda _: iter(()))]
    status = bench.run(bench.Run(measures=measures, sizes=TINY, url=server_url), listener)

    assert (1, [Failed("one", "it did not end")]) == (status, listener.results)
    assert ["one", "two", "end"] == listener.steps[-3:]
    assert set() == left_over()


def test_after_a_failure(take: Take, left_over: Ask) -> None:
    """The error is the caller's to tell."""

    def fail(_environment: Environment) -> Iterator[Result]:
        raise Broken

    with pytest.raises(Broken):
        take(Measure("fail", "", fail))

    assert set() == left_over()


def test_no_role_is_left_on_a_server_that_had_none() -> None:
    """They belong to the whole server; one that was there before stays."""
    with servers.shared_server("embedded") as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE orchestrator_reader")
        status = bench.run(bench.Run(measures=[], sizes=TINY, url=url), Listener())
        roles = connection.execute(
            "SELECT rolname FROM pg_roles WHERE rolname LIKE 'orchestrator%'"
        ).fetchall()

    assert (0, [("orchestrator_reader",)]) == (status, roles)


@pytest.mark.parametrize(("numbers", "status"), [([signal.SIGINT] * 3, 130), long([signal.SIGTERM], 143)])
def test_after_a_signal(
    server_url: str,
    administrator: psycopg.Connection,
    left_over: Ask,
    numbers: list[signal.Signals],
    status: int,
    tmp_path: Path,
) -> None:
    """In the middle of a drain, and again while it cleans up: no traceback, no worker, no database."""
    out, err = tmp_path / "out", tmp_path / "err"
    words = ("bench", "--url", server_url, "--only", "throughput", "--json")
    process = start(*words, env=surroundings(None), out=out, err=err)
    try:
        eventually(lambda: left_over() and working(administrator, left_over()), "a worker has come")
        database, workers = left_over().pop(), workers_of(process.pid)
        for number in numbers:
            process.send_signal(number)
        ended = process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()

    assert (status, "") == (ended, out.read_text()), err.read_text()
    assert "Interrupted. The scratch database is dropped.\n" == err.read_text()
    assert database not in left_over()
    assert workers
    eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers), "the workers are gone")


def test_a_signal_while_a_statement_is_sent_is_all_that_is_reported(
    server_url: str, left_over: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    """psycopg cancels a statement only while it waits for the answer: one that was just sent still runs."""

    def interrupt(environment: Environment) -> Iterator[Result]:
        environment.connection.pgconn.send_query(b"SELECT pg_sleep(3600)")
        raise Interrupted(signal.SIGINT)
        yield

    listener = Listener()
    status = bench.run(
        bench.Run(measures=[Measure("one", "", interrupt)], sizes=TINY, url=server_url), listener
    )

    assert (130, "interrupted") == (status, listener.steps[-1])
    assert [] == caplog.messages
    assert set() == left_over()


def working(administrator: psycopg.Connection, databases: set[str]) -> bool:
    """Tell whether a worker is connected to one of these databases."""
    who = "SELECT FROM pg_stat_activity WHERE datname = ANY (%s) AND application_name = 'orchestrator claims'"
    return bool(administrator.execute(who, [list(databases)]).fetchall())


def workers_of(parent: int) -> list[int]:
    """Return the pids of a process's own workers."""
    mine = f"/proc/{parent}/task/{parent}/children"
    with open(mine) as file:
        children = {int(pid) for pid in file.read().split()}
    return [pid for pid, line in command_lines() if pid in children and "exit_with_parent" in line]


def test_a_throw_away_server_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a URL there is a server for as long as the run lasts; what the environment names is not looked at."""
    monkeypatch.setenv("ORCHESTRATOR_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nowhere")
    where = list[str]()

    def look(environment: Environment) -> Iterator[Result]:
        where.append(environment.connection.info.host)
        yield from ()

    request = bench.Run(measures=[Measure("look", "", look)], sizes=bench.SIZES["quick"])
    status = bench.run(request, Listener())

    assert 0 == status
    assert "orchestrator-bench-" in where[0]
    assert not os.path.exists(where[0])
