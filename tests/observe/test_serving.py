"""Worker processes that serve metrics and health, queried over HTTP while they run."""

import asyncio
import os
import signal
import socket
import threading
from pathlib import Path

import psycopg
import pytest

from orchestrator import ConfigError, Orchestrator, events
from orchestrator.cli.worker import served_by_parent
from tests.conftest import MakeApp
from tests.observe.http import get, numbers, ready
from tests.patience import eventually
from tests.worker.outage import possible
from tests.worker.processes import Process, run, worker
from tests.worker.running import recorded, until, value, working

SERVED = ("--metrics-port", "0")
ATTEMPTS = "orchestrator_attempts_ended_total"
WORKED = f'{ATTEMPTS}{{outcome="completed",queue="default",type="shop.work"}}'


def port(process: Process) -> int:
    """Return the port of a worker, as soon as it logs it."""
    eventually(lambda: process.has_logged("metrics served"), f"it serves: {process.log}")
    return int(next(line for line in process.events() if line["event"] == "metrics served")["port"])


def is_ready(number: int) -> bool:
    return ready(number)[0] == 200


def enqueue(connection: psycopg.Connection, kind: str, count: int = 1, payload: str = "{}") -> None:
    connection.execute(
        "INSERT INTO orchestrator.tasks (type, payload) SELECT %s, %s FROM generate_series(1, %s)",
        [kind, payload, count],
    )


def checks(number: int) -> dict[str, bool]:
    return {name: check["ok"] for name, check in ready(number)[1]["checks"].items()}


def test_a_worker_serves_metrics_under_constant_requests(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The counts are exact, with four clients that scrape all the time. As the leader it also reports the whole
    cluster."""
    total = 4000
    stop = threading.Event()
    answers: list[int] = []

    def scrape(number: int) -> None:
        while not stop.is_set():
            answers.append(get(number, "/metrics").status)

    connection.execute("INSERT INTO orchestrator.tasks (type, queue) VALUES ('shop.nobody', 'elsewhere')")
    with worker(database_url, tmp_path / "log", *SERVED) as process:
        number = port(process)
        eventually(lambda: is_ready(number), "it is ready")
        scrapers = [threading.Thread(target=scrape, args=(number,)) for _ in range(4)]
        for scraper in scrapers:
            scraper.start()
        enqueue(connection, "shop.work", total)
        enqueue(connection, "shop.fail", 3, '{"secret": "hunter2"}')
        enqueue(connection, "no such type")
        try:
            eventually(lambda: numbers(number).get(WORKED) == total, "all of them are counted")
        finally:
            stop.set()
            for scraper in scrapers:
                scraper.join()
        eventually(lambda: 'type="shop.fail"' in get(number, "/metrics").body, "so are the others")
        eventually(lambda: "(unknown)" in get(number, "/metrics").body, "and the stranger")
        eventually(lambda: "orchestrator_queue_tasks{" in get(number, "/metrics").body, "it has sampled")
        found = numbers(number)
        text = get(number, "/metrics").body
        process.signal(signal.SIGTERM)
        assert 0 == process.wait(), process.log

    assert {200} == set(answers)
    assert 3.0 == found[f'{ATTEMPTS}{{outcome="dead_lettered",queue="default",type="shop.fail"}}']
    assert found["orchestrator_tasks_claimed_total"] >= total + 4
    assert total == found['orchestrator_task_wait_seconds_count{queue="default",type="shop.work"}']
    assert total == found['orchestrator_task_run_seconds_bucket{le="+Inf",queue="default",type="shop.work"}']
    assert (1.0, 1.0) == (found["orchestrator_is_leader"], found["orchestrator_worker_ready"])
    assert 1.0 == found['orchestrator_queue_tasks{queue="elsewhere",status="pending"}']
    assert found["orchestrator_finish_batch_seconds_count"] > 0
    assert found["orchestrator_loop_lag_seconds_count"] > 0
    assert not [word for word in ("hunter2", "no such type", database_url) if word in text]


def test_a_taken_port_is_reported_before_the_first_claim(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """By a single worker and by a parent: a sentence and exit status 1, and no row of a worker."""
    with worker(database_url, tmp_path / "log", *SERVED) as first:
        number = str(port(first))
        eventually(lambda: first.has_logged("worker started"), "the first one serves")
        before = value(connection, "SELECT count(*) FROM orchestrator.workers")
        ends = [
            run("worker", "tests.worker.tasks:app", "--metrics-port", number, *more, url=database_url)
            for more in ([], ["--processes", "2"])
        ]
        by_variable = run(
            "worker", "tests.worker.tasks:app", url=database_url, ORCHESTRATOR_METRICS_PORT=number
        )

    for end in (*ends, by_variable):
        assert 1 == end.returncode
        assert "another process listens there" in end.stderr
        assert "Traceback" not in end.stderr
    assert before == value(connection, "SELECT count(*) FROM orchestrator.workers")


def test_a_worker_without_its_database_is_alive_and_not_ready(
    database_url: str, administrator: psycopg.Connection, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Until the database is back. The answer names neither the server nor the role."""
    with (
        possible(administrator, connection) as outage,
        worker(database_url, tmp_path / "log", *SERVED) as process,
    ):
        number = port(process)
        eventually(lambda: is_ready(number), "it is ready")
        outage.begin()
        eventually(lambda: not is_ready(number), "it is not ready")
        status, report = ready(number)
        assert 200 == get(number, "/healthz").status
        assert 1.0 > numbers(number)["orchestrator_worker_ready"]
        outage.end()
        eventually(lambda: is_ready(number), "it is ready again")
        assert numbers(number)['orchestrator_reconnects_total{purpose="heartbeat"}'] >= 1

    assert (503, False) == (status, report["checks"]["database"]["ok"])
    assert "has confirmed no heartbeat" in report["checks"]["database"]["says"]
    assert not [word for word in ("postgres", "host", "port", connection.info.dbname) if word in str(report)]


def test_a_worker_with_a_blocked_loop_reports_that_meanwhile(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """A thread answers. A stopping worker is not ready either."""
    with psycopg.connect(database_url, autocommit=True) as keeper:
        keeper.execute("SELECT pg_advisory_lock(77)")
        with worker(database_url, tmp_path / "log", *SERVED) as process:
            number = port(process)
            eventually(lambda: is_ready(number), "it is ready")
            enqueue(connection, "shop.block", payload='{"door": 77, "after": 0}')
            eventually(lambda: not checks(number)["loop"], "its loop is late")
            assert 200 == get(number, "/healthz").status
            assert numbers(number)["orchestrator_loop_lag"] > 1.0
            keeper.execute("SELECT pg_advisory_unlock_all()")
            eventually(lambda: is_ready(number), "it is ready again")
            keeper.execute("SELECT pg_advisory_lock(77)")
            enqueue(connection, "shop.knock", payload='{"door": 77}')
            eventually(lambda: numbers(number)["orchestrator_worker_busy"] == 1, "one runs")
            process.signal(signal.SIGTERM)
            eventually(lambda: not checks(number)["worker"], "it stops, and says so")
            keeper.execute("SELECT pg_advisory_unlock_all()")
            assert 0 == process.wait(), process.log


def test_one_port_speaks_for_all_processes_and_a_killed_one_is_counted_once(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The sum never falls at a death. Gauges are those of live processes, and there is one leader."""
    with worker(database_url, tmp_path / "log", *SERVED, "-p", "2", "-c", "7") as process:
        number = port(process)
        eventually(lambda: is_ready(number), "both are ready")
        assert {"1", "2"} == set(ready(number)[1]["processes"])
        enqueue(connection, "shop.work", 500)
        eventually(lambda: numbers(number).get(WORKED) == 500, "all are counted")
        before = numbers(number)
        # Let both have told what they counted, before one dies.
        eventually(lambda: numbers(number)["orchestrator_worker_busy"] == 0, "nothing runs")
        os.kill(follower(connection), signal.SIGKILL)
        eventually(lambda: process.has_logged("child died"), "it is gone")
        assert 500 == numbers(number)[WORKED], "what it had counted has been counted"
        eventually(lambda: is_ready(number), "another has taken its place")
        enqueue(connection, "shop.work", 100)
        eventually(lambda: numbers(number)[WORKED] == 600, "and counts on")
        eventually(lambda: numbers(number)["orchestrator_is_leader"] == 1, "one leads")
        after, text = numbers(number), get(number, "/metrics").body
        process.signal(signal.SIGTERM)
        assert 0 == process.wait(), process.log

    assert 14.0 == before["orchestrator_worker_slots"] == after["orchestrator_worker_slots"]
    assert (2.0, 1.0) == (after["orchestrator_processes"], after["orchestrator_processes_died_total"])
    assert after["orchestrator_leader_term"] >= before["orchestrator_leader_term"]
    assert {'process="1"', 'process="2"'} <= {
        line.split("{")[1].split("}")[0] for line in text.splitlines() if line.startswith("process_open_fds{")
    }
    counters = [name for name in before if name.startswith("orchestrator_") and "_total" in name]
    assert not [name for name in counters if after[name] < before[name]]


def follower(connection: psycopg.Connection) -> int:
    """Return the pid of a child that does not lead."""
    query = (
        "SELECT pid FROM orchestrator.workers WHERE state = 'running' AND NOT is_leader ORDER BY pid LIMIT 1"
    )
    eventually(
        lambda: value(connection, "SELECT count(*) FROM orchestrator.workers WHERE is_leader") == 1,
        "one leads",
    )
    pid = value(connection, query)
    assert isinstance(pid, int)
    return pid


def test_two_workers_of_one_host_have_a_port_each(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Together they count everything once, and one of them reports the cluster."""
    with (
        worker(database_url, tmp_path / "1.log", *SERVED) as first,
        worker(database_url, tmp_path / "2.log", *SERVED) as second,
    ):
        ports = [port(first), port(second)]
        eventually(lambda: all(map(is_ready, ports)), "both are ready")
        enqueue(connection, "shop.nap", 1000)
        name = f'{ATTEMPTS}{{outcome="completed",queue="default",type="shop.nap"}}'
        eventually(lambda: sum(numbers(p).get(name, 0) for p in ports) == 1000, "all are counted")
        eventually(lambda: sum(numbers(p)["orchestrator_is_leader"] for p in ports) == 1, "one leads")
        leader = max(ports, key=lambda p: numbers(p)["orchestrator_is_leader"])
        eventually(lambda: "orchestrator_sample_age_seconds" in numbers(leader), "it has sampled")
        (other,) = (p for p in ports if p != leader)
        assert "orchestrator_sample_age_seconds" not in numbers(other)


def test_with_processes_the_parent_needs_the_port() -> None:
    """It does not read the application's settings, so a port that is set only there is refused, with a sentence."""
    made = Orchestrator("postgresql://nowhere/x", metrics_port=0).worker()

    with pytest.raises(ConfigError, match="name it with --metrics-port"):
        served_by_parent(made, None)
    served_by_parent(made, 9464)

    assert not made.serves


def test_a_worker_without_the_port_counts_nothing() -> None:
    """The process that counted before goes on, and no other counts."""
    before = events.wanted(events.ClaimAnswered)

    async def show(port: int) -> None:
        with pytest.raises(ConfigError, match="another process listens there"):
            await Orchestrator("postgresql://nowhere/x", metrics_port=port).worker().run()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        asyncio.run(show(taken.getsockname()[1]))

    assert before == events.wanted(events.ClaimAnswered)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_worker_of_the_application_serves_too(make_app: MakeApp, host: str) -> None:
    """With its settings, without a command; over IPv6 as well."""
    app = make_app(metrics_port=0, metrics_host=host)

    with recorded(events.MetricsServed) as served:
        async with working(app):
            await until(lambda: served, "it serves")
            address = f"[{host}]" if ":" in host else host
            assert 200 == (await asyncio.to_thread(get, served[0].port, "/healthz", host=address)).status
