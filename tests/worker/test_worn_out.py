"""A worker with too many threads left behind by handlers: it stops, and asks for a replacement."""

import asyncio
import threading
from pathlib import Path

import psycopg

from orchestrator import Orchestrator, events
from orchestrator.processes.exit_codes import WORN_OUT_CODE
from tests.patience import PATIENCE_SECONDS
from tests.worker.processes import worker
from tests.worker.running import recorded, status, statuses, until


async def test_a_worker_with_too_many_threads_left_behind_stops(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """It logs that, claims no more, lets running tasks finish, and ends by itself."""
    let_go, go_on, runs = threading.Event(), threading.Event(), threading.Event()

    @app.task(name="stuck", timeout=0.05, max_attempts=1)
    def stuck() -> None:
        let_go.wait(PATIENCE_SECONDS)

    @app.task(name="good")
    def good() -> str:
        runs.set()
        go_on.wait(PATIENCE_SECONDS)
        return "done"

    made = app.worker(concurrency=3, leaked_threads_max=2)
    first = await good.aenqueue()
    serving = asyncio.create_task(made.run())
    await until(runs.is_set, "the good one runs")
    for n in (1, 2):
        await stuck.aenqueue()
        await until(lambda n=n: made.left_behind == n, "it is left behind")  # type: ignore[misc]
    assert not made.worn_out
    with recorded(events.WorkerWornOut, events.WorkerStopping) as seen:
        await stuck.aenqueue()
        await until(lambda: len(seen) == 2, "it is worn out, and stops")
    late = await good.aenqueue()
    go_on.set()
    await asyncio.wait_for(serving, PATIENCE_SECONDS)
    assert (True, 3, 3) == (made.worn_out, seen[0].left_behind, made.left_behind)
    assert ["completed", "pending"] == [status(connection, handle.id) for handle in (first, late)]
    let_go.set()


async def test_threads_that_ended_late_do_not_count(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Only threads that still run count."""
    doors = [threading.Event() for _ in range(4)]

    @app.task(name="slow", timeout=0.05, max_attempts=1)
    def slow(n: int) -> None:
        doors[n].wait(PATIENCE_SECONDS)

    made = app.worker(concurrency=1, leaked_threads_max=1)
    serving = asyncio.create_task(made.run())
    for n, door in enumerate(doors):
        await slow.aenqueue(n=n)
        await until(lambda: made.left_behind == 1, "it is left behind")
        door.set()
        await until(lambda: made.left_behind == 0, "it has ended")
    made.stop()
    await asyncio.wait_for(serving, PATIENCE_SECONDS)
    assert not made.worn_out

    assert {"dead_letter": 4} == statuses(connection)


def test_the_process_of_a_worn_out_worker_ends_with_a_code_of_its_own(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Abandoned threads do not keep the process, and its exit status asks for a replacement."""
    connection.execute("SELECT orchestrator.enqueue('shop.doze', timeout => '0.1 s', max_attempts => 1)")
    log = tmp_path / "log"
    with worker(database_url, log, ORCHESTRATOR_LEAKED_THREADS_MAX="0") as process:
        assert (75, WORN_OUT_CODE) == (process.wait(), 75)
        assert process.has_logged("worker worn out"), process.log

    assert {"dead_letter": 1} == statuses(connection)
