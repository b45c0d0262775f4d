"""Five scenarios for the comparison of queues, each under a steady load of 500 tasks/s, with default settings: the time
from the end of the fault until the fleet completes at least 98 % of its rate before.

In the end every acknowledged task is completed, and there is no other task, except those in doubt.
"""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import LiteralString

import psycopg

from orchestrator.postgres import embedded_folder
from tests.recovery.drills import Note
from tests.recovery.environment import Environment, environment
from tests.servers import Server, private
from tests.worker.processes import Process

WORKERS = 3
TASKS_A_SECOND = 500
TICK_SECONDS = 0.01
SHARE = 0.98
BASE_SECONDS = 5
FAULT_SECONDS = 10.0
WATCHED_SECONDS = 14
# The average of so many seconds must reach the rate, and the first of them nearly: one good second is no recovery, and
# the rate of single seconds varies.
LASTING = 3
NEARLY = 0.9
MAX_CONNECTIONS = 60
YOUNG_SECONDS = 31.0
NEVER = 999.0

FREE_A_CONNECTION: LiteralString = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'orchestrator%' LIMIT 1
"""

RESTARTED = "PostgreSQL restarted, 500 tasks/s: at 98 % again"
KILLED_BACKENDS = "backends killed 2/s, 500 tasks/s: at 98 % again"
EXHAUSTED = "connections exhausted, 500 tasks/s: at 98 % again"
CRASHED = "PostgreSQL crashed, 500 tasks/s: at 98 % again"
KILLED_WORKERS = "workers killed, 500 tasks/s: at 98 % again"
LIMITS = dict.fromkeys((RESTARTED, KILLED_BACKENDS, EXHAUSTED, CRASHED, KILLED_WORKERS), 10.0)


class Load:
    """Enqueues at a steady rate, in any state of the server. Counts the acknowledged tasks, and those in doubt."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged = self.in_doubt = 0

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        share, due = int(TASKS_A_SECOND * TICK_SECONDS), time.monotonic()
        # Ends with the `with` block.
        while not self._over.is_set():
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(self._url, autocommit=True) as connection,
            ):
                # Tasks that could not be sent in time are not sent later: the load is steady.
                due = time.monotonic()
                while not self._over.wait(max(0.0, due - time.monotonic())):
                    due += TICK_SECONDS
                    self.in_doubt += share
                    connection.execute(
                        "SELECT count(orchestrator.enqueue('drill.stamp')) FROM generate_series(1, %s)",
                        [share],
                    )
                    self.in_doubt -= share
                    self.acknowledged += share
            self._over.wait(0.05)


class Scene:
    """A server, a fleet and a load."""

    def __init__(self, server: Server, made: Environment) -> None:
        self.server = server
        self.environment = made
        self.fleet: list[Process] = [made.hire() for _ in range(WORKERS)]

    def restart(self) -> None:
        """Restart the server (fast)."""
        self.server.restart("fast")

    def crash(self) -> None:
        """Stop the server at once (immediate), and start it: it recovers."""
        self.server.restart("immediate")

    def kill_backends(self) -> None:
        """Twice a second, end a session of any client."""
        for _ in range(int(FAULT_SECONDS * 2)):
            self.environment.ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend'"
                " AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
            )
            time.sleep(0.5)

    def exhaust(self) -> None:
        """Take every connection with other clients, also those of the fleet."""
        taken: list[psycopg.Connection] = []
        deadline = time.monotonic() + FAULT_SECONDS
        while time.monotonic() < deadline:
            with suppress(psycopg.OperationalError):
                taken.append(psycopg.connect(self.server.url(), autocommit=True, application_name="stranger"))
                continue
            rows = taken[0].execute(FREE_A_CONNECTION).fetchall()
            if not rows:
                time.sleep(0.05)
        for connection in taken:
            connection.close()

    def kill_workers(self) -> None:
        """Every two seconds, kill a worker and start another one."""
        for _ in range(int(FAULT_SECONDS / 2)):
            victim = self.fleet.pop(random.randrange(WORKERS))  # noqa: S311 - no secret
            victim.kill()
            self.fleet.append(self.environment.start())
            time.sleep(2.0)


FAULTS: dict[str, Callable[[Scene], None]] = {
    RESTARTED: Scene.restart,
    KILLED_BACKENDS: Scene.kill_backends,
    EXHAUSTED: Scene.exhaust,
    CRASHED: Scene.crash,
    KILLED_WORKERS: Scene.kill_workers,
}


def scenarios(directory: Path, rounds: int, note: Note) -> None:
    """Run every scenario several times, one after another, on one server."""
    directory.mkdir()
    settings = {"max_connections": str(MAX_CONNECTIONS)}
    with (
        private(embedded_folder.binaries(), folder=directory, settings=settings) as server,
        environment(server.url(), directory, {}) as made,
    ):
        scene = Scene(server, made)
        for name, fault in FAULTS.items():
            for _ in range(rounds):
                one(scene, name, partial(fault, scene), note)


def one(scene: Scene, name: str, strike: Callable[[], None], note: Note) -> None:
    """Load it, cause the fault, and watch the recovery; then check that no task is missing."""
    made = scene.environment
    made.ask("DELETE FROM orchestrator.tasks_done")
    if name == KILLED_WORKERS:
        # On a younger server a missing beacon has no effect, and only a late beat shows a dead worker.
        made.until(lambda: is_old(made), "the server is old enough")
    with Load(scene.server.url()) as load:
        made.until(lambda: load.acknowledged > TASKS_A_SECOND, "the load is on")
        time.sleep(BASE_SECONDS)
        begun = time.time()
        strike()
        over = time.time()
        time.sleep(WATCHED_SECONDS)
        base = done_between(made, begun - BASE_SECONDS, begun)[0] / BASE_SECONDS
        seconds = done_between(made, over, over + WATCHED_SECONDS, each=1.0)
    assert base >= NEARLY * TASKS_A_SECOND, (
        f"{base:.0f} tasks/s before the fault: this machine does not carry the load"
    )
    note(name, recovered(seconds, SHARE * base))
    made.until(lambda: not made.ask("SELECT 1 FROM orchestrator.tasks_live LIMIT 1"), "all is done")
    ((completed,),) = made.ask("SELECT count(*) FROM orchestrator.tasks WHERE status = 'completed'")
    assert load.acknowledged <= completed <= load.acknowledged + load.in_doubt


def recovered(seconds: list[int], enough: float) -> float:
    """Return after how many seconds the rate was back, and stayed."""
    for n in range(len(seconds) - LASTING + 1):
        if seconds[n] >= NEARLY * enough and sum(seconds[n : n + LASTING]) / LASTING >= enough:
            return n + 1.0
    return NEVER


def done_between(made: Environment, begun: float, over: float, *, each: float | None = None) -> list[int]:
    """Return how many tasks were completed between two times, or in each part of that time."""
    size = each or over - begun
    rows = made.ask(
        "SELECT floor((extract(epoch FROM finished_at) - %s) / %s)::int, count(*) FROM orchestrator.tasks_done"
        " WHERE finished_at >= to_timestamp(%s) AND finished_at < to_timestamp(%s) GROUP BY 1",
        begun, size, begun, over,
    )  # fmt: skip
    counts = {int(n): int(count) for n, count in rows}
    return [counts.get(n, 0) for n in range(round((over - begun) / size))]


def is_old(made: Environment) -> bool:
    return bool(
        made.ask(
            "SELECT 1 WHERE statement_timestamp() - pg_postmaster_start_time() > %s * interval '1 s'",
            YOUNG_SECONDS,
        )
    )
