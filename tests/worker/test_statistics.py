"""The statistics of running workers: they agree with the tables, at any end of the tasks."""

import asyncio
import signal
from pathlib import Path
from typing import LiteralString

import psycopg

from orchestrator import Cancel, Context, Discard, Orchestrator, Snooze
from tests.conftest import MakeApp
from tests.patience import PATIENCE_SECONDS, eventually
from tests.worker.processes import worker
from tests.worker.running import AT_ONCE, value

BY_TABLES: LiteralString = """
SELECT
    (SELECT count(*) FROM orchestrator.tasks_done AS t WHERE t.status = 'completed'),
    (SELECT count(*) FROM orchestrator.tasks_done AS t WHERE t.status = 'cancelled'),
    (SELECT count(*) FROM orchestrator.tasks_dead),
    (SELECT count(*) FROM orchestrator.attempts AS a WHERE a.outcome NOT IN ('lost', 'released', 'snoozed'))
"""
BY_STATISTICS: LiteralString = """
SELECT sum(s.completed), sum(s.cancelled), sum(s.dead_lettered), sum(s.failed + s.timed_out + s.dead_lettered)
FROM orchestrator.statistics AS s
"""
TIMED: LiteralString = """
SELECT sum(h.count::bigint)
FROM orchestrator.statistics AS s, LATERAL jsonb_each_text(s.run) AS h (bucket, count)
"""
RAN: LiteralString = """
SELECT sum(m.completed + m.cancelled + m.failed + m.timed_out + m.dead_lettered + m.snoozed)
FROM orchestrator.queue_metrics() AS m
WHERE m.type IS NULL
"""
FILL: LiteralString = """
INSERT INTO orchestrator.tasks (type, queue, payload, max_attempts, timeout)
SELECT 'play', (ARRAY['a', 'b'])[1 + n %% 2], jsonb_build_object('how', n / 2 %% 8), 3, '0.2 s'
FROM generate_series(1, %s) AS n
"""
TOLD: LiteralString = "SELECT coalesce(sum(s.completed), 0) FROM orchestrator.statistics AS s"
WORK: LiteralString = "INSERT INTO orchestrator.tasks (type) SELECT 'shop.work' FROM generate_series(1, %s)"


def stage(app: Orchestrator) -> None:
    """Enqueue a task for each possible end."""
    seen = set[int]()

    @app.task(name="play", backoff=AT_ONCE)
    async def play(how: int, context: Context) -> None:
        first = context.id not in seen
        seen.add(context.id)
        match how:
            case 1 if first:
                raise ValueError("not yet")
            case 2:
                raise ValueError("never")
            case 3:
                raise Cancel("not wanted")
            case 4:
                raise Discard("for good")
            case 5:
                async with context.transaction():
                    pass
            case 6 if first:
                raise Snooze(0.01)
            case 7 if first:
                await asyncio.sleep(PATIENCE_SECONDS)


async def test_the_counts_are_those_of_the_tables(app: Orchestrator, connection: psycopg.Connection) -> None:
    """After tasks with every end, on two workers that stopped cleanly."""
    stage(app)
    connection.execute(FILL, [160])

    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(app.arun_worker(until_empty=True, queues=[queue]) for queue in "ab"))

    assert connection.execute(BY_TABLES).fetchone() == connection.execute(BY_STATISTICS).fetchone()
    assert 20 == value(connection, "SELECT sum(snoozed) FROM orchestrator.statistics")
    assert 20 <= value(connection, "SELECT sum(timed_out) FROM orchestrator.statistics")
    assert {("a", "play"), ("b", "play")} == set(
        connection.execute("SELECT DISTINCT queue, type FROM orchestrator.statistics").fetchall()
    )
    assert value(connection, RAN) == value(connection, TIMED)


def test_a_kill_loses_only_the_statistics_that_were_not_written_yet(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Written counts stay. The next worker, which stops cleanly, writes all of its own."""
    with worker(database_url, tmp_path / "1.log", ORCHESTRATOR_STATISTICS_SECONDS="0.1") as process:
        connection.execute(WORK, [30])
        eventually(lambda: value(connection, TOLD) == 30, "it has told of them")
        process.signal(signal.SIGKILL)
        process.wait()
    with worker(database_url, tmp_path / "2.log", ORCHESTRATOR_STATISTICS_SECONDS="3600") as process:
        connection.execute(WORK, [12])
        eventually(
            lambda: value(connection, "SELECT count(*) FROM orchestrator.tasks_done") == 42, "they are done"
        )
        assert 30 == value(connection, TOLD)
        process.signal(signal.SIGTERM)
        assert 0 == process.wait()

    assert 42 == value(connection, TOLD)


def test_none_are_written_where_they_are_switched_off(
    make_app: MakeApp, connection: psycopg.Connection
) -> None:
    """By a setting."""
    app = make_app(statistics_seconds=0)

    @app.task
    def work() -> None: ...

    work.enqueue()
    app.run_worker(until_empty=True)

    assert (1, 0) == (
        value(connection, "SELECT count(*) FROM orchestrator.tasks_done"),
        value(connection, TOLD),
    )
