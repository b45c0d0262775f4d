"""The counting proxy and the meters: their values are correct."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from orchestrator.bench.environment import Environment
from orchestrator.bench.meter import Meter, cpu_seconds, process_tree
from orchestrator.bench.proxy_process import ProxyProcess, growth_of
from orchestrator.demo.workers import spawned
from tests.bench.conftest import TINY


@contextmanager
def environment(url: str, folder: Path) -> Iterator[Environment]:
    """Something to stand on, in a database of the test's."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield Environment(url, connection, Meter(connection), TINY, folder, lambda _: None)


def test_statements_are_counted_by_the_name_of_the_connection(
    empty_database_url: str, tmp_path: Path
) -> None:
    """Simple and extended, prepared ones, several in one round trip; large ones come in many pieces."""
    with (
        environment(empty_database_url, tmp_path) as stands,
        ProxyProcess(stands) as between,
        psycopg.connect(between.info, application_name="counted", autocommit=True) as connection,
    ):
        before = between.counts()
        for _ in range(7):
            connection.execute("SELECT %s", [1], prepare=False)
        connection.execute("SELECT length(%s)", ["x" * 300_000])
        one_by_one = between.counts()
        with connection.pipeline():
            for n in range(20):
                connection.execute("SELECT %s", [n])
        together = between.counts()

    assert 8 == growth_of("statements", before, one_by_one)["counted"]
    assert 8 == growth_of("round_trips", before, one_by_one)["counted"]
    assert 20 == growth_of("statements", one_by_one, together)["counted"]
    assert 20 > growth_of("round_trips", one_by_one, together)["counted"]


def test_a_long_line_changes_nothing_but_the_time(empty_database_url: str, tmp_path: Path) -> None:
    """What goes over it arrives whole and in order."""
    text = "".join(str(n) for n in range(100_000))
    with (
        environment(empty_database_url, tmp_path) as stands,
        ProxyProcess(stands, delay_seconds=0.001) as between,
        psycopg.connect(between.info) as connection,
    ):
        answer = connection.execute("SELECT %s", [text]).fetchone()

    assert (text,) == answer


def test_the_server_of_this_machine_is_seen(empty_database_url: str, tmp_path: Path) -> None:
    """Its CPU time grows with what it is asked to do, and its WAL."""
    with environment(empty_database_url, tmp_path) as stands:
        before = stands.meter.read([os.getpid()])
        stands.connection.execute("CREATE TABLE t AS SELECT n FROM generate_series(1, 100000) AS n")
        spent = stands.meter.since(before, [os.getpid()])

    assert spent.server_seconds is not None
    assert 0 < spent.server_seconds
    assert 0 < spent.wal_bytes


def test_descendants_belong_to_a_process(tmp_path: Path) -> None:
    """A worker's children are its own, and cost what it costs."""
    with spawned("orchestrator.bench.producer", log=tmp_path / "log") as process:
        mine, its = process_tree({os.getpid()}), process_tree({process.pid})
        spent = cpu_seconds([process.pid])

    assert process.pid in mine
    assert {process.pid} == its
    assert spent is not None
