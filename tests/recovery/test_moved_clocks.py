"""Real clocks that move by an hour, in both directions: the server's, while it runs, and that of a worker's host.

tests/recovery/test_clocks.py replaces the function that the product asks for the time. Here the clock itself moves, and
with it the server's own timers, its statistics, the time of its start. Long: test_clocks.py checks the same promises.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import pytest

from orchestrator.postgres import embedded_folder
from tests import faketime, servers
from tests.recovery.environment import Environment, environment, logged
from tests.worker.processes import QUICK

HOUR = 3600
TASKS = 50
HELD = 3
# Beats come in time, although the processes read the clock only once a second.
CALM = {**QUICK, "ORCHESTRATOR_HEARTBEAT_SECONDS": "1", "ORCHESTRATOR_DEAD_AFTER_SECONDS": "10"}
LEDGER: LiteralString = "CREATE TABLE ledger (task_id bigint NOT NULL, key text NOT NULL)"

EARLY: LiteralString = """
SELECT id FROM orchestrator.tasks
WHERE id = ANY (%s) AND NOT finished_at - created_at BETWEEN interval '1 s' AND interval '30 s'
"""

pytestmark = [pytest.mark.long, pytest.mark.skipif(faketime.LIBRARY is None, reason=faketime.MISSING)]


@pytest.fixture
def directory() -> Iterator[Path]:
    """The folder of the server and its clock."""
    with servers.temporary_directory() as directory:
        directory.chmod(0o755)
        yield directory


@pytest.fixture
def clock(directory: Path) -> faketime.Jumping:
    """The server's clock."""
    return faketime.Jumping(directory)


@pytest.fixture
def here(clock: faketime.Jumping, directory: Path, tmp_path: Path) -> Iterator[Environment]:
    """A database on a server with that clock."""
    programs, faked = embedded_folder.binaries(), clock.environment
    with (
        servers.private(programs, folder=directory, environment=faked) as server,
        environment(server.url(), tmp_path, CALM) as made,
    ):
        made.ask(LEDGER)
        yield made


def test_the_servers_clock_is_moved_by_an_hour_both_ways(here: Environment, clock: faketime.Jumping) -> None:
    """A worker keeps its tasks, new tasks run once, and a worker that dies afterwards is found as usual."""
    leader = here.hire("-q", "unused")
    holder = here.hire("-q", "held")
    worker = here.hire()
    held = here.enqueue("drill.hold", HELD, queue="held")
    here.until(lambda: here.are(held, "running"), "they run")
    ids = [here.id_of(process) for process in (leader, holder, worker)]

    for n, offset in enumerate((HOUR, 0, -HOUR)):
        before = now(here)
        clock.set(offset)
        here.until(lambda b=before: abs(now(here) - b) > HOUR / 2, "it is moved")  # type: ignore[misc]
        here.until(lambda: all_have_beaten(here), "they beat by the new time")
        here.results(here.enqueue("drill.book", TASKS, key=str(n)))
        assert here.are(held, "running")
        assert [(1, 0)] * HELD == here.losses(held)
    assert ids == [here.id_of(process) for process in (leader, holder, worker)]
    holder.kill()
    here.hire("-q", "held")
    here.results(held)

    assert [(task_id, 1, ids[1]) for task_id in held] == here.lost(held)
    assert [(3 * TASKS, 3 * TASKS)] == here.ask("SELECT count(*), count(DISTINCT task_id) FROM ledger")
    assert [] == [line for p in (leader, holder, worker) for line in logged(p, "worker declared dead")]


def now(here: Environment) -> float:
    """Return the server's time."""
    ((seconds,),) = here.ask("SELECT extract(epoch FROM clock_timestamp())::float")
    return float(seconds)


def all_have_beaten(here: Environment) -> bool:
    """Return whether the last beat of every live worker is recent."""
    return not here.ask(
        "SELECT 1 FROM orchestrator.workers WHERE state = 'running'"
        " AND abs(extract(epoch FROM beat_at - clock_timestamp())) > 3"
    )


def test_the_clock_of_a_workers_host_is_an_hour_off(quick: Environment) -> None:
    """Ahead or behind, it works beside others and leads. Delayed tasks run at the time of the database."""
    quick.ask(LEDGER)
    offsets = {"ahead": HOUR, "behind": -HOUR}
    wrong = {
        queue: quick.start("-q", f"default,{queue}", settings=faketime.shifted(offset))
        for queue, offset in offsets.items()
    }
    for process in wrong.values():
        quick.wait_for_ready(process)
    quick.until(lambda: any(map(quick.leads, wrong.values())), "one of them leads")
    leaders = [queue for queue, process in wrong.items() if quick.leads(process)]
    right = quick.hire()
    before = now(quick)
    stamped = [quick.enqueue("drill.stamp", queue=queue)[0] for queue in offsets]
    later = [quick.enqueue("drill.stamp", queue=queue, delay=1.0)[0] for queue in offsets]
    later += [quick.enqueue("drill.stumble", queue=queue, after=1.0)[0] for queue in offsets]

    quick.results(quick.enqueue("drill.book", TASKS, key="x"))
    moments = [moment for moment, _ in quick.results(stamped)]
    quick.results(later)

    assert [True, True] == [
        abs(moment - before - offset) < HOUR / 2
        for moment, offset in zip(moments, offsets.values(), strict=True)
    ]
    assert 1 == len(leaders)
    assert [] == quick.ask(EARLY, later)
    assert [(TASKS, TASKS)] == quick.ask("SELECT count(*), count(DISTINCT task_id) FROM ledger")
    assert [("running",)] * 3 == quick.ask("SELECT state FROM orchestrator.workers")
    assert [] == [line for p in (right, *wrong.values()) for line in logged(p, "worker declared dead")]
