"""The statements, the WAL and the connections of a worker: per task, and when it is idle.

They are counted by a proxy and by the server: counts are the same on every machine, times are not. `orchestrator
bench` measures the same at length.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from orchestrator import Orchestrator
from orchestrator.bench.environment import Environment
from orchestrator.bench.meter import Meter
from orchestrator.bench.proxy_process import LEADERS, ProxyProcess, growth_of
from tests.bench.conftest import TINY
from tests.tiers import long
from tests.worker.running import asleep, until, value, working

# So many that the first claims, which are small until the speed is known, count for little on a busy machine.
TASKS = 20_000
STATEMENTS_MAX = {100: 0.05, 10: 0.3}
# 823 where measured: a claim's new version, the finished row, three index entries, two commits shared by many.
WAL_BYTES = range(500, 1300)
CONNECTIONS_MAX = 5
IDLE_SECONDS = 4
WINDOWS = 3

FILL: LiteralString = """
INSERT INTO orchestrator.tasks_live (
    id, type, queue, priority, max_attempts, timeout, aging_us, run_at, status, payload
)
SELECT nextval('orchestrator.tasks_id_seq'),
    'nothing', 'default', 50, 4, '5 minutes', 31557600000000000, now(), 'pending', '{}'
FROM generate_series(1, %s) AS n
"""
WRITTEN: LiteralString = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
LEFT: LiteralString = "SELECT count(*) FROM orchestrator.tasks_live"


@pytest.fixture
def between(database_url: str, connection: psycopg.Connection, tmp_path: Path) -> Iterator[ProxyProcess]:
    """A proxy to the server that counts statements."""
    environment = Environment(database_url, connection, Meter(connection), TINY, tmp_path, lambda _: None)
    with ProxyProcess(environment) as between:
        yield between


def connections(connection: psycopg.Connection) -> list[str]:
    """Return the names of the worker's connections to this database."""
    rows = connection.execute(
        "SELECT application_name FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'orchestrator %%' ORDER BY 1",
        [],
    ).fetchall()
    return [name for (name,) in rows]


def served(between: ProxyProcess) -> Orchestrator:
    """Return an application whose workers connect through that proxy, with default settings."""
    app = Orchestrator(between.info)

    @app.task(name="nothing")
    async def nothing() -> None: ...

    return app


@pytest.mark.parametrize("concurrency", [100, long(10)])
async def test_tasks_share_their_statements(
    between: ProxyProcess,
    connection: psycopg.Connection,
    concurrency: int,
    record_property: Callable[[str, object], None],
) -> None:
    """Claims and outcomes are batches, with beats and duties included, and each task writes little WAL."""
    app = served(between)

    async with working(app, concurrency=concurrency):
        await until(lambda: asleep(connection), "it sleeps")
        connection.execute(FILL, [TASKS])
        before, written = between.counts(), value(connection, WRITTEN)
        connection.execute("SELECT orchestrator.ring('{default}')")
        held = list[str]()
        while value(connection, LEFT):
            held = max(held, connections(connection), key=len)
            # Not more often: the queries block the loop of the worker, and took two thirds of the test's CPU.
            await asyncio.sleep(0.05)
        counts = growth_of("statements", before, between.counts())
        wal = value(connection, WRITTEN) - written
    await app.aclose()
    assert len(held) <= CONNECTIONS_MAX + 1, held
    statements, wal = sum(counts.values()) / TASKS, wal / TASKS

    record_property("statements_per_task", f"{statements:.4f}")
    record_property("wal_bytes_per_task", f"{wal:.0f}")
    assert statements <= STATEMENTS_MAX[concurrency]
    assert int(wal) in WAL_BYTES


async def test_an_idle_worker_sends_few_statements(
    between: ProxyProcess, connection: psycopg.Connection, record_property: Callable[[str, object], None]
) -> None:
    """Notifications wake it, and its polls and beats are seconds apart. The statements of the leader come on top. It
    holds no unused connections."""
    app = served(between)
    beacons: LiteralString = "SELECT count(*) FROM orchestrator.workers WHERE beacon IS NOT NULL"

    async with working(app):
        await until(lambda: asleep(connection) and value(connection, beacons), "it sleeps")
        # After the start, the worker looks a few more times and the leader runs each duty once. On a busy machine that
        # takes longer: measure again.
        for _ in range(WINDOWS):
            await asyncio.to_thread(connection.execute, "SELECT pg_sleep(1)")
            begun, before = time.monotonic(), between.counts()
            await asyncio.to_thread(connection.execute, "SELECT pg_sleep(%s)", [IDLE_SECONDS])
            counts, seconds = growth_of("statements", before, between.counts()), time.monotonic() - begun
            own = sum(count for name, count in counts.items() if name not in LEADERS)
            leaders = sum(counts.values()) - own
            # A beat may fall on either side of the window.
            if own <= 0.5 * seconds + 1 and leaders <= 2 * seconds + 2:
                break
        # The connection of the leader's duties is closed once there is nothing to do.
        await until(lambda: len(connections(connection)) <= CONNECTIONS_MAX, "it holds few connections")
    await app.aclose()

    record_property("idle_statements_per_second", f"{own / seconds:.2f}, all {(own + leaders) / seconds:.2f}")
    assert own <= 0.5 * seconds + 1, counts
    assert leaders <= 2 * seconds + 2, counts
