"""The environment of a drill: one database, its worker processes, and the queries of a drill.

Times are `time.time()`, which a handler in another process returns; everything is on one machine.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg

from tests.patience import PATIENCE_SECONDS, eventually
from tests.worker.processes import Process, begin_worker

APP = "tests.recovery.tasks:app"


class Environment:
    """One database, and its worker processes, which end with it."""

    def __init__(self, url: str, directory: Path, settings: dict[str, str]) -> None:
        self.url = url
        self._directory = directory
        self._settings = settings
        self._connection: psycopg.Connection | None = None
        self._numbers = count(1)
        self.hired: list[Process] = []

    def close(self) -> None:
        """Kill the remaining processes."""
        for process in self.hired:
            process.kill()
        if self._connection is not None:
            self._connection.close()

    def another(self) -> AbstractContextManager["Environment"]:
        """The same database, with a session of its own: for another thread."""
        return environment(self.url, self._directory, self._settings)

    def folder(self, name: str) -> Path:
        """Make a folder."""
        path = self._directory / name
        path.mkdir()
        return path

    @property
    def connection(self) -> psycopg.Connection:
        """A session in autocommit, opened again if the server was away."""
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = psycopg.connect(self.url, autocommit=True)
        return self._connection

    def ask(self, statement: LiteralString, *params: object) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        try:
            return self._asked(statement, params)
        except psycopg.OperationalError:
            self.connection.close()
            return self._asked(statement, params)

    def until_found(self, statement: LiteralString) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, as soon as it has any."""
        self.until(lambda: self.ask(statement), "there is a row")
        return self.ask(statement)

    def _asked(self, statement: LiteralString, params: Sequence[object]) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement, params)
        return cursor.fetchall() if cursor.description else []

    def start(
        self, *words: str, url: str | None = None, settings: Mapping[str, str] | None = None
    ) -> Process:
        """Start a worker process, through another URL if given; it may not serve yet."""
        log = self._directory / f"{next(self._numbers)}.log"
        given = {**self._settings, **(settings or {})}
        # A preloaded library (the clock of faketime) needs a new interpreter.
        fresh = "LD_PRELOAD" in given
        process = begin_worker(url or self.url, log, *words, settings=given, app=APP, fresh=fresh)
        self.hired.append(process)
        return process

    def hire(
        self,
        *words: str,
        url: str | None = None,
        has_beacon: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a worker process. Return when it serves (and holds its beacon)."""
        process = self.start(*words, url=url, settings=settings)
        self.wait_for_ready(process, has_beacon=has_beacon)
        return process

    def wait_for_ready(self, process: Process, *, has_beacon: bool = True) -> None:
        """Wait until it has its row, and its beacon if it should have one."""
        self.until(
            lambda: self.serves(process, has_beacon=has_beacon), f"worker {process.pid} is ready", of=process
        )

    def serves(self, process: Process, *, has_beacon: bool = True) -> bool:
        """Return whether it is a live worker."""
        return bool(
            self.ask(
                "SELECT 1 FROM orchestrator.workers"
                " WHERE pid = %s AND state = 'running' AND (beacon IS NOT NULL OR NOT %s)",
                process.pid,
                has_beacon,
            )
        )

    def leads(self, process: Process) -> bool:
        """Return whether it is the leader, by the table."""
        return bool(self.ask("SELECT 1 FROM orchestrator.workers WHERE pid = %s AND is_leader", process.pid))

    def id_of(self, process: Process) -> UUID:
        """Return its current or last id."""
        ((worker_id,),) = self.ask(
            "SELECT id FROM orchestrator.workers WHERE pid = %s ORDER BY started_at DESC LIMIT 1", process.pid
        )
        assert isinstance(worker_id, UUID)
        return worker_id

    def enqueue(
        self, kind: str, times: int = 1, *, queue: str = "default", delay: float = 0.0, **payload: Any
    ) -> list[int]:
        """Enqueue this number of tasks. Return their ids."""
        rows = self.ask(
            "SELECT orchestrator.enqueue(%s, %s::jsonb, queue => %s, delay => make_interval(secs => %s),"
            " max_attempts => 10, timeout => '1 hour') FROM generate_series(1, %s)",
            kind, json.dumps(payload), queue, delay, times,
        )  # fmt: skip
        return [task_id for (task_id,) in rows]

    def statuses(self, ids: Sequence[int]) -> dict[str, int]:
        """Count these tasks by status."""
        rows = self.ask(
            "SELECT status, count(*) FROM orchestrator.tasks WHERE id = ANY (%s) GROUP BY status", ids
        )
        return {status: number for status, number in rows}  # noqa: C416 - a dict of what types it says

    def are(self, ids: Sequence[int], status: str) -> bool:
        """Return whether all of these tasks have this status."""
        return self.statuses(ids) == {status: len(ids)}

    def run_all(self, kind: str, times: int, **payload: Any) -> list[int]:
        """Enqueue, and wait until all of these tasks run. Return their ids."""
        ids = self.enqueue(kind, times, **payload)
        self.until(lambda: self.are(ids, "running"), f"{times} {kind} run")
        return ids

    def results(self, ids: Sequence[int], *, seconds: float = PATIENCE_SECONDS) -> list[Any]:
        """Wait until these are completed. Return their results."""
        self.until(lambda: self.are(ids, "completed"), "they are completed", seconds=seconds)
        return [
            result
            for (result,) in self.ask(
                "SELECT result FROM orchestrator.tasks WHERE id = ANY (%s) ORDER BY id", ids
            )
        ]

    def losses(self, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the attempt and the losses of each task."""
        return self.ask("SELECT attempt, losses FROM orchestrator.tasks WHERE id = ANY (%s) ORDER BY id", ids)

    def lost(self, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the records of lost attempts: task, attempt, worker."""
        return self.ask(
            "SELECT task_id, attempt, worker_id FROM orchestrator.attempts"
            " WHERE outcome = 'lost' AND task_id = ANY (%s) ORDER BY id",
            ids,
        )

    def orphan(self) -> int:
        """Add a task that a missing worker has claimed. The leader's next duty takes it back."""
        (task_id,) = self.enqueue("drill.stamp", queue="orphans")
        self.orphan_again(task_id)
        return task_id

    def orphan_again(self, task_id: int) -> None:
        """Make it an orphan again if it has been taken back."""
        self.ask(
            "UPDATE orchestrator.tasks_live SET status = 'claimed', lease = 7, attempt = 1, claimed_at = now(),"
            " worker_id = gen_random_uuid() WHERE id = %s AND status = 'pending'",
            task_id,
        )

    def logs(self) -> str:
        """Return the end of each worker's output."""
        return "\n".join(f"--- {process.pid}\n{process.log[-3000:]}" for process in self.hired)

    def until(
        self,
        holds: Callable[[], object],
        what: str,
        *,
        seconds: float = PATIENCE_SECONDS,
        of: Process | None = None,
    ) -> None:
        """Return as soon as a condition holds. Fail with the description, and the logs, if it does not hold in time."""

        def checked() -> object:
            assert of is None or not of.ended, f"ended: {what}\n{of.log if of else ''}"
            return holds()

        eventually(checked, lambda: f"{what}\n{self.logs()}", seconds=seconds)


@contextmanager
def environment(url: str, directory: Path, settings: dict[str, str]) -> Iterator[Environment]:
    """Yield an environment, and clear it afterwards."""
    made = Environment(url, directory, settings)
    try:
        yield made
    finally:
        made.close()


def logged(process: Process, event: str, *, after: float = 0.0) -> list[float]:
    """Return the times when it logged this event."""
    moments = [
        datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")).timestamp()
        for line in lines(process)
        if line["event"] == event
    ]
    return [moment for moment in moments if moment >= after]


def lines(process: Process) -> list[dict[str, Any]]:
    """Return its log; the last line may be incomplete."""
    return [json.loads(line) for line in process.log.splitlines() if line[:1] == "{" and line[-1:] == "}"]
