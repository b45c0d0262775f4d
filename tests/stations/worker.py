"""A worker's side of the stations: one row, one session with a worker's settings, each station one call.

    worker.take("mail")  →  worker.finish(Outcome(task, Completed(None)))

The interface is synchronous for the tests. The stations run on a loop of their own, as in a worker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar
from uuid import uuid4

import psycopg

from orchestrator import claim, execute, finish
from orchestrator.claim import ScanPositions, Swept
from orchestrator.finish.record import Written, written_before
from orchestrator.lead import View
from orchestrator.postgres import connect
from orchestrator.postgres.session import Connection, Session
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import End, Outcome, Released
from orchestrator.worker.beat_report import Report, with_leases
from tests.worker.holding import holding

T = TypeVar("T")
REGISTER = "INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity) VALUES (%s, %s, %s, '0', %s, 1)"


class Mate:
    """A worker's calls of the stations, one at a time."""

    host = "test-host"
    pid = 4711

    def __init__(self, url: str) -> None:
        self.id = uuid4()
        self._url = url
        self._runner = asyncio.Runner()
        self._session = Session(connect.conninfo(url, application_name=f"mate {self.id}"), purpose="test")
        self.call(lambda c: c.execute(REGISTER, [self.id, self.host, self.pid, ["default"]]))

    def close(self) -> None:
        """Close the session. The worker's row stays, as after a crash."""
        self._runner.run(self._session.close())
        self._runner.close()

    def call(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a function on the session. Its errors are raised."""
        return self._runner.run(self._session.run(work, give_up_on=lambda _error: True))

    def claim(
        self,
        *queues: str,
        batch_size: int = 10,
        limits: Sequence[int] | None = None,
        positions: ScanPositions | None = None,
    ) -> list[Claimed]:
        """Claim, by default from `default`."""
        wanted = queues or ("default",)
        given: dict[str, Any] = {
            "queues": wanted,
            "batch_size": batch_size,
            "limits": limits,
            "positions": positions,
        }

        async def claimed(connection: Connection) -> list[Claimed]:
            answer = await claim.batch(connection, worker_id=self.id, lease=claim.new_lease(), **given)
            return await answer.tasks()

        return self.call(claimed)

    def claim_one(self) -> Claimed:
        """Claim the only task."""
        (task,) = self.claim()
        return task

    def take_one(self) -> Claimed:
        """Claim the only task, and begin it."""
        (task,) = self.begin([self.claim_one()])
        return task

    def begin(self, tasks: list[Claimed]) -> list[Claimed]:
        """Mark these tasks running. Return those that are still ours."""
        begun = self.call(lambda c: execute.begin(c, tasks))
        return [task for task in tasks if task.id in begun]

    def finish(self, task: Claimed, end: End) -> bool:
        """Write how a task ended. Return whether it was accepted."""
        return task.id in self.finish_all([Outcome(task, end)])

    def finish_all(self, outcomes: list[Outcome]) -> set[int]:
        """Write outcomes in one batch. Return the ids of the accepted ones."""
        return {outcome.task.id for outcome in outcomes} - self.record(outcomes).refused

    def record(self, outcomes: list[Outcome]) -> Written:
        """Write outcomes in one batch. Return the answer."""
        return self.call(lambda c: finish.record(c, outcomes, worker_id=self.id))

    def finish_unlocked(self, outcomes: list[Outcome]) -> tuple[set[int], list[Outcome]]:
        """The same with skip-locked. Return the accepted ones, and the outcomes left out."""
        written, left = self.call(lambda c: finish.record_unlocked(c, outcomes, worker_id=self.id))
        return {o.task.id for o in outcomes if o not in left} - written.refused, left

    def report(self, task: Claimed, progress: str) -> None:
        """Report the progress of a task, as JSON text."""
        self.call(lambda c: finish.report(c, {(task.id, task.lease): progress}))

    def has_written(self, task: Claimed, end: End) -> bool:
        return task.id in self.call(lambda c: written_before(c, [Outcome(task, end)]))

    def sweep(self) -> Swept:
        return self.call(lambda c: claim.sweep(c, queues=["default"]))

    def reconcile(self, held: Iterable[Claimed] = ()) -> list[int]:
        """Give back the tasks that are ours in the database and not in `held`. Return the ids."""
        ghosts = self.leases(held).ghosts
        return sorted(self.finish_all([Outcome(ghost, Released()) for ghost in ghosts]))

    def leases(self, held: Iterable[Claimed] = ()) -> Report:
        """Read the state of our leases."""
        view = View(
            self.id, None, renewed=False, leader_id=None, beat_at=None, holds=False, beacon_lost=False
        )
        report = Report(
            self.id,
            0.0,
            alive=True,
            draining=False,
            at_home=True,
            beacon_lost=False,
            paused=(),
            peers=1,
            view=view,
        )
        with psycopg.connect(self._url, autocommit=True) as connection:
            return with_leases(connection, report, holding(held))

    def remaining(self, *queues: str) -> bool:
        return self.call(lambda c: claim.remaining(c, queues=queues or ("default",)))
