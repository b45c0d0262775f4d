"""The database behind the interface of the reference, with the product's own statements, duties and functions.

The whole test has two sessions, one for workers and one for manual changes. The steps run one after the other, so a
session for each worker would show nothing more. Between two examples the tables are emptied, which takes a hundredth of
the time of a new database.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, LiteralString, cast
from uuid import UUID

import psycopg
from psycopg import sql

from orchestrator import claim, execute, finish, lead, maintain
from orchestrator.config import Config
from orchestrator.finish.record import written_before
from orchestrator.maintain.recover import recover
from orchestrator.postgres.session import SETTINGS, Connection
from orchestrator.task.claimed import Claimed, unknown
from orchestrator.task.outcome import Outcome, Released
from orchestrator.worker.beat_report import Report, ask, with_leases
from orchestrator.worker.heartbeat import DEREGISTER
from orchestrator.worker.register import REGISTER
from tests.clock import REPLACEMENT
from tests.stateful import statements
from tests.stateful.at_once import AtOnce, at_once
from tests.stateful.interface import (
    BACKOFF_BASE_SECONDS,
    BACKOFF_CAP_SECONDS,
    DEAD_AFTER_SECONDS,
    QUEUES,
    TERM_OVER,
    TERM_SECONDS,
    TIMEOUT_MARGIN_SECONDS,
    Beaten,
    Claim,
    Edit,
    Ends,
    Leadership,
    Looked,
    Order,
    Refused,
    Snapshot,
)
from tests.stateful.rows import ZERO
from tests.worker.holding import holding

TYPE = "letter"
CONFIG = Config(term_seconds=TERM_SECONDS, dead_after_seconds=DEAD_AFTER_SECONDS)
DUTY_SECONDS = 5.0
# The machine keeps the clock within a day of the start, in either direction.
LEAF_DAYS = range(-1, 3)


class RollBack(Exception):
    """Raised to roll back a transaction."""


class Database:
    """The methods of the reference, executed by PostgreSQL."""

    def __init__(self, worker: psycopg.Connection, operator: psycopg.Connection) -> None:
        self._worker = worker
        self._operator = operator
        self._station = cast(Connection, AtOnce(worker))
        worker.execute(SETTINGS)
        operator.execute(REPLACEMENT.encode())
        operator.execute(statements.DECLARE, [TYPE, BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS])
        for queue in QUEUES:
            operator.execute(statements.ADD_QUEUE, [queue])
        for day in LEAF_DAYS:
            operator.execute(statements.ADD_LEAF, [(ZERO + timedelta(days=day)).date()])

    def reset(self) -> None:
        """Delete all rows, and set the clock to its start."""
        self._operator.execute(statements.RESET)
        self.set_clock(0)

    def snapshot(self) -> Snapshot:
        """Return the whole content as rows, in the form of the reference."""
        names = ("tasks", "workers", "keys", "queues", "attempts", "audit")
        row = self._operator.execute(statements.READ, prepare=True).fetchone()
        assert row is not None
        return dict(zip(names, row, strict=True))

    def set_clock(self, now: int) -> None:
        self._operator.execute(statements.SET_CLOCK, [moment(now)])

    # Producers

    def enqueue(self, order: Order) -> int:
        return int(self._ask(statements.ENQUEUE, asdict(order) | {"type": TYPE}))

    def insert(self, order: Order) -> int:
        return int(self._ask(statements.INSERT, asdict(order) | {"type": TYPE}))

    def enqueue_undone(self, order: Order) -> int:
        answer = 0
        try:
            with self._operator.transaction():
                answer = self.enqueue(order)
                raise RollBack
        except RollBack:
            return answer

    def enqueue_after_undone(self, undone: Order, kept: Order) -> int:
        with self._operator.transaction():
            try:
                with self._operator.transaction():
                    self.enqueue(undone)
                    raise RollBack
            except (RollBack, Refused):
                return self.enqueue(kept)

    # Workers

    def register(self, worker: int) -> None:
        given = {
            "host": "host",
            "pid": worker,
            "version": "0",
            "queues": list(QUEUES),
            "types": [],
            "capacity": 3,
            "dead_after_seconds": DEAD_AFTER_SECONDS,
        }
        self._worker.execute(REGISTER, given | {"id": UUID(int=worker)})

    def sweep(self) -> tuple[int, tuple[str, ...], float | None]:
        swept = at_once(claim.sweep(self._station, queues=QUEUES))
        return swept.moved, tuple(sorted(swept.queues)), swept.next_due_seconds

    def claim(self, worker: int, queues: Sequence[str], batch_size: int, lease: int) -> list[Claim]:
        given: dict[str, Any] = {"worker_id": UUID(int=worker), "queues": queues, "batch_size": batch_size}
        answer = at_once(claim.batch(self._station, lease=lease, **given))
        return [received(task, worker) for task in at_once(answer.tasks())]

    def begin(self, claims: Sequence[Claim]) -> list[int]:
        begun = at_once(execute.begin(self._station, [held(c) for c in claims]))
        return [c.task for c in claims if c.task in begun]

    def finish(self, ends: Ends, worker: int) -> set[int]:
        outcomes = [Outcome(held(claimed), end) for claimed, end in ends]
        written = at_once(finish.record(self._station, outcomes, worker_id=UUID(int=worker)))
        return {claimed.task for claimed, _ in ends} - written.refused

    def was_written(self, claimed: Claim) -> bool:
        return bool(at_once(written_before(self._station, [Outcome(held(claimed), Released())])))

    def beat(self, worker: int, *, beats: bool, draining: bool) -> Beaten:
        told = self._report(worker, beats=beats, draining=draining)
        leader, view = told.view.leader_id, told.view
        return Beaten(
            told.alive,
            told.draining,
            view.term,
            told.paused,
            leader.int if leader else None,
            view.holds,
        )

    def look(self, worker: int, holds: Sequence[Claim]) -> Looked:
        report = self._report(worker, beats=False, draining=False)
        told = with_leases(self._worker, report, holding(held(claimed) for claimed in holds))
        ghosts = sorted(told.ghosts, key=lambda ghost: ghost.id)
        return Looked(dict(told.lost), tuple(received(ghost, worker) for ghost in ghosts))

    def deregister(self, worker: int) -> None:
        self._worker.execute(DEREGISTER, {"id": UUID(int=worker)})

    def _report(self, worker: int, *, beats: bool, draining: bool) -> Report:
        return ask(
            self._worker, UUID(int=worker), beats=beats, draining=draining, beacon=None, rings=False,
            config=CONFIG,
        )  # fmt: skip

    # The leader

    def elect(self, worker: int) -> Leadership | None:
        term = lead.elect(self._worker, worker_id=UUID(int=worker), term_seconds=TERM_SECONDS)
        return None if term is None else Leadership(worker, term)

    def resign(self, leadership: Leadership) -> bool:
        return lead.resign(self._worker, lead.Leadership(UUID(int=leadership.worker), leadership.term))

    def recover(self, leadership: Leadership) -> tuple[int, int, int]:
        with self._fenced(leadership):
            done = recover(self._worker)
        return done.returned, done.dead_lettered, done.workers

    def enforce_timeouts(self, leadership: Leadership) -> bool:
        with self._fenced(leadership):
            return maintain.timeouts(self._worker, margin_seconds=TIMEOUT_MARGIN_SECONDS)

    @contextmanager
    def _fenced(self, leadership: Leadership) -> Iterator[None]:
        try:
            own = lead.Leadership(UUID(int=leadership.worker), leadership.term)
            with lead.fenced(self._worker, own, limit_seconds=DUTY_SECONDS):
                yield
        except lead.TermOver:
            raise Refused(TERM_OVER) from None

    # Manual changes

    def edit(self, task_ids: Sequence[int], edit: Edit) -> None:
        self._update(sql.SQL("id = ANY (%(ids)s)"), edit, {"ids": list(task_ids)})

    def edit_queue(self, queue: str, edit: Edit) -> None:
        self._update(sql.SQL("queue = %(queue)s"), edit, {"queue": queue})

    def cancel(self, task_id: int) -> None:
        self._ask("SELECT orchestrator.cancel(%(id)s)", {"id": task_id})

    def requeue(self, task_id: int) -> None:
        self._ask("SELECT orchestrator.requeue(%(id)s)", {"id": task_id})

    def requeue_where(self, status: str, queue: str, at_most: int) -> int:
        given = {"status": status, "queue": queue, "at_most": at_most}
        return int(self._ask(statements.REQUEUE_WHERE, given))

    def delete(self, task_id: int) -> None:
        self._operator.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [task_id])

    def set_queue(self, queue: str, state: str) -> None:
        self._ask(statements.QUEUE_STATES[state], {"queue": queue})

    def erase_worker(self, worker: int) -> None:
        self._operator.execute("DELETE FROM orchestrator.workers WHERE id = %s", [UUID(int=worker)])

    def _update(self, where: sql.SQL, edit: Edit, given: dict[str, Any]) -> None:
        columns = {name: value for name, value in asdict(edit).items() if value is not None}
        if "run_at" in columns:
            columns["run_at"] = moment(columns["run_at"])
        setting = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in columns
        )
        query = sql.SQL("UPDATE orchestrator.tasks SET {} WHERE {}").format(setting, where)
        self._do(query, columns | given)

    def _ask(self, query: LiteralString, given: Mapping[str, Any]) -> Any:
        row = self._do(sql.SQL(query), given).fetchone()
        return row and row[0]

    def _do(self, query: sql.SQL | sql.Composed, given: Mapping[str, Any]) -> psycopg.Cursor:
        try:
            return self._operator.execute(query, given)
        except psycopg.Error as error:
            raise Refused(error.sqlstate) from error


def moment(now: int) -> datetime:
    return ZERO + timedelta(seconds=now)


def received(task: Claimed, worker: int) -> Claim:
    return Claim(task.id, task.lease, worker, task.attempt, task.max_attempts)


def held(claimed: Claim) -> Claimed:
    """Return the part of a task that its worker needs to write an outcome."""
    return unknown(id=claimed.task, lease=claimed.lease, queue="?", type=TYPE, attempt=claimed.attempt)
