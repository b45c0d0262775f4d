"""One run: a server, a fleet, faults by a schedule, a calm time in which every task must end, and the records.

start ──► storm: faults, each undone in time ──► calm: no more faults, everything recovers
      ──► drained: every task has ended ──► proof: a few more tasks complete soon ──► stop: every worker ends well
"""

import heapq
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from orchestrator.schema import migrate
from tests.chaos import records
from tests.chaos.faults import STRIKES
from tests.chaos.fleet import SIGKILL_STATUS, Fleet, Hired, Setting
from tests.chaos.manual import ENQUEUED, Operators
from tests.chaos.plan import Outcome, Plan
from tests.chaos.producer_log import ACKNOWLEDGED, Item, Journal
from tests.chaos.samples import sample
from tests.servers import Server, binaries, choice

DATABASE = "chaos"
# Frequent checkpoints, so that the recovery after a crash is short: the checker excuses only a short time around it.
SETTINGS = {"max_connections": "150", "max_wal_size": "4GB", "checkpoint_timeout": "30s"}
LOOK_SECONDS = 0.5
SAMPLE_SECONDS = 2.0
# With more waiting tasks than this, producers pause. A long queue is no fault, but the calm must not take hours.
BACKLOG_MAX = 1500
PROBES = 20
# After BREATH_FAULTS faults, BREATH_TASKS tasks must begin before the next fault. A wait has a limit, because a queue
# may be paused; the sum of all waits has a limit too, about the planned time of the faults.
BREATH_FAULTS = 10
BREATH_TASKS = 5
BREATH_SECONDS = 2.0
WORKED = """
SELECT count(*) FROM (SELECT FROM chaos.ledger WHERE what = 'begun' AND at > to_timestamp(%s) LIMIT %s) AS begun
"""
HURRY = """
UPDATE orchestrator.tasks SET run_at = now() WHERE status = 'scheduled' AND run_at > now() + interval '2 seconds'
"""


class Supervisor:
    """Runs one plan in one folder. The faults act on it."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._numbers = count(1)
        self._undo: list[tuple[float, int, Callable[[], object]]] = []
        self._writing = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._look_at = self._sample_at = 0.0
        self._breath_seconds = plan.seconds
        self.newest = 1
        self.outcome = Outcome()
        self.server = Server(binaries(choice()), folder / "server", settings=SETTINGS)
        for name in ("journals", "logs", "metrics"):
            (folder / name).mkdir()
        self._journal = Journal(folder / "journals" / "supervisor.jsonl")
        timers = plan.timers
        self.dead_after_seconds = float(timers.get("ORCHESTRATOR_DEAD_AFTER_SECONDS", 30))
        self.term_seconds = float(timers.get("ORCHESTRATOR_TERM_SECONDS", 10))
        self.operators = Operators(self.url, self._report)
        self.fleet = Fleet(self._setting(timers))

    @property
    def counts(self) -> Counter[str]:
        """The number of faults, by kind."""
        return self.outcome.counts

    @property
    def url(self) -> str:
        """The database of the run, for its superuser, without a proxy."""
        return self.server.url(DATABASE)

    def run(self) -> Outcome:
        """Run the plan. Afterwards the server still runs, for the checker."""
        self._open()
        begun = time.monotonic()
        self.fleet.start()
        self._storm(begun)
        self.outcome.seconds = time.monotonic() - begun
        self._calm()
        self._drain()
        self._prove()
        self.outcome.stubborn = [hired.who for hired in self.fleet.stop(self.fleet.workers, 30.0)]
        self.operators.close()
        return self.outcome

    def close(self) -> None:
        """End everything that was started."""
        self.fleet.close()
        self.operators.close()
        if self._connection is not None:
            self._connection.close()
        self.server.close()

    # The functions that faults use (Targets).

    def ask(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        """Run a query as the server's superuser; no rows if the server is away."""
        try:
            if self._connection is None or self._connection.closed or self._connection.broken:
                self._connection = psycopg.connect(
                    self.url, autocommit=True, connect_timeout=3, application_name="chaos supervisor"
                )
            cursor = self._connection.execute(statement.encode(), params)
            return cursor.fetchall() if cursor.description else []
        except psycopg.OperationalError:
            if self._connection is not None:
                self._connection.close()
            return []

    def later(self, seconds: float, undo: Callable[[], object]) -> None:
        """Call this after this time."""
        heapq.heappush(self._undo, (time.monotonic() + seconds, next(self._numbers), undo))

    def write(self, name: str, line: list[Any]) -> None:
        """Write a line into one of the record files."""
        with self._writing, (self._folder / f"{name}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def remark(self, text: str) -> None:
        """Add a remark to the report that is neither a fault nor a violation."""
        self.outcome.remarks.append(text)

    def enqueue_poison(self) -> bool:
        """Enqueue a task that kills its process."""
        return self._enqueue("chaos.poison")

    # The steps.

    def _open(self) -> None:
        self.server.start()
        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}".encode())
        migrate.upgrade(self.url)
        with psycopg.connect(self.url, autocommit=True) as connection:
            records.create_tables(connection)
            records.create_roles(connection)
            # The first worker would create them, but a manual change may come before it.
            connection.execute("INSERT INTO orchestrator.queues (name) VALUES ('slow'), ('other')")

    def _storm(self, begun: float) -> None:
        start = begun
        for fault in self._plan.faults:
            if self._is_enough(max(fault.at, time.monotonic() - begun)):
                break
            self.outcome.planned += 1
            if self.outcome.planned % BREATH_FAULTS == 0:
                self._let_work()
            # If it is late, the next faults keep their pace, and do not come all at once.
            start = max(start, time.monotonic() - fault.at)
            self._pass_time(start + fault.at)
            if STRIKES[fault.kind](self, fault):
                self.record(fault.kind, f"{fault.where:.3f}", f"{fault.how:.3f}")

    def _is_enough(self, seconds: float) -> bool:
        plan = self._plan
        return seconds > plan.seconds and (
            self.outcome.faults >= plan.faults_min or seconds > 8 * plan.seconds
        )

    def _let_work(self) -> None:
        """Let a slow machine complete some tasks in between: without any, the faults prove nothing."""
        begun, now = time.monotonic(), time.time()
        seconds = min(BREATH_SECONDS, self._breath_seconds)
        self._until(lambda: self.ask(WORKED, now, BREATH_TASKS) == [(BREATH_TASKS,)], seconds)
        self._breath_seconds -= time.monotonic() - begun

    def _calm(self) -> None:
        """Undo all remaining faults now."""
        while self._undo:
            heapq.heappop(self._undo)[2]()
        for place in (*self.fleet.workers, *self.fleet.producers):
            gate = place.gate
            gate.heal()
            gate.restore()
            gate.open()
        self.fleet.stop(self.fleet.producers, 20.0)
        self.fleet.renew()
        self._until(lambda: self.ask("SELECT 1"), 60.0)
        for queue in ("default", "slow", "other"):
            self.ask("SELECT orchestrator.resume_queue(%s)", queue)

    def _drain(self) -> None:
        begun = time.monotonic()
        # A task that was put back for its unknown type waits for minutes. An operator would not wait.
        self._hurry()
        if self._until(self._is_empty, self._plan.calm_seconds):
            self.outcome.drained_seconds = time.monotonic() - begun

    def _hurry(self) -> None:
        self.ask(HURRY)
        self.later(1.0, self._hurry)

    def _is_empty(self) -> bool:
        return self.ask("SELECT count(*) FROM orchestrator.tasks_live") == [(0,)]

    def _prove(self) -> None:
        begun = time.monotonic()
        for _ in range(PROBES):
            self._enqueue("chaos.note")
        if self._until(self._is_empty, 30.0):
            self.outcome.proof_seconds = time.monotonic() - begun

    # The passing of time, and the work that is due meanwhile.

    def _pass_time(self, moment: float) -> None:
        """Return at this time."""
        while (now := time.monotonic()) < moment:
            self._look_after(now)
            until = min([moment, *(at for at, *_ in self._undo[:1])])
            time.sleep(min(0.05, max(0.0, until - time.monotonic())))
        self._look_after(now)

    def _until(self, holds: Callable[[], object], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                return False
            self._look_after(time.monotonic())
            time.sleep(0.02)
        return True

    def _look_after(self, now: float) -> None:
        while self._undo and self._undo[0][0] <= now:
            heapq.heappop(self._undo)[2]()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        self.fleet.refill()
        found = self.ask("SELECT count(*), max(id) FROM orchestrator.tasks_live")
        if found:
            waiting, newest = found[0]
            self.newest = max(self.newest, newest or 1)
            ease = self._folder / "ease"
            if waiting > BACKLOG_MAX:
                ease.touch()
            else:
                ease.unlink(missing_ok=True)
        if now >= self._sample_at:
            self._sample_at = now + SAMPLE_SECONDS
            for hired in self.fleet.present():
                if line := sample(hired):
                    self.write("samples", line)

    # The records.

    def _enqueue(self, kind: str) -> bool:
        n = next(self._numbers)
        token = f"supervisor-{n}"
        self._journal.intend(n, "supervisor", [Item(token, kind)])
        rows = self.ask(ENQUEUED, kind, token)
        if rows:
            self._journal.conclude(n, ACKNOWLEDGED, [rows[0][0]])
        return bool(rows)

    def _report(self, kind: str, target: str, detail: str) -> None:
        if detail == "done":
            self.record(kind, target, detail)
        else:
            self.write("faults", [time.time(), f"{kind}: {detail.split(' ')[0]}", target, detail])

    def _ended(self, hired: Hired, status: int) -> None:
        self.write("ends", [time.time(), hired.who, status, status in hired.fates])
        if status == SIGKILL_STATUS and status not in hired.fates:
            self.record("process killed by its task", hired.who, "")

    def record(self, kind: str, target: str, detail: str) -> None:
        self.write("faults", [time.time(), kind, target, detail])
        with self._writing:
            self.outcome.counts[kind] += 1

    def _setting(self, timers: dict[str, str]) -> Setting:
        plan = self._plan
        environment = {
            **timers,
            "ORCHESTRATOR_TRANSACTION_POOL_SIZE": "3",
            "CHAOS_JOURNALS": str(self._folder / "journals"),
            "CHAOS_METRICS": str(self._folder / "metrics"),
            "CHAOS_EASE": str(self._folder / "ease"),
            "CHAOS_PER_SECOND": str(plan.per_second / plan.producers),
        }
        return Setting(
            self.url, self._folder, plan.workers, plan.producers, environment, plan.guards, self._ended
        )
