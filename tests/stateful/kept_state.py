"""The stored state of the reference, and the effects of producers and workers."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from orchestrator.task.outcome import (
    Cancelled,
    Completed,
    DeadLettered,
    End,
    Failed,
    PutBack,
    Released,
    Snoozed,
)
from orchestrator.task.status import FINISHED, LEASED
from tests.stateful.interface import (
    QUEUES,
    TERM_SECONDS,
    Beaten,
    Claim,
    Ends,
    Looked,
    Order,
    Refused,
    Snapshot,
)
from tests.stateful.rows import Key, Row, Task, Worker

DAY_SECONDS = 86_400


@dataclass
class Kept:
    """All stored rows, and the effect of each call on them."""

    now: int = 0
    drawn: int = 0
    terms: int = 0
    tasks: dict[int, Task] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    workers: dict[int, Worker] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=lambda: dict.fromkeys(QUEUES, "active"))
    attempts: list[Row] = field(default_factory=list)
    audit: list[Row] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        """Return the whole state as rows."""
        return {
            "tasks": [self.tasks[n].row() for n in sorted(self.tasks)],
            "workers": [self.workers[n].row() for n in sorted(self.workers)],
            "keys": [self.keys[k].row() for k in sorted(self.keys)],
            "queues": [{"name": name, "state": self.queues[name]} for name in sorted(self.queues)],
            "attempts": self.attempts,
            "audit": self.audit,
        }

    def set_clock(self, now: int) -> None:
        self.now = now

    # Producers

    def enqueue(self, order: Order) -> int:
        self.drawn += 1
        if order.key and (holder := self._holder(order.key)):
            return holder
        if self.queues[order.queue] == "draining":
            raise Refused("OR003")
        return self._put(order, order.window)

    def insert(self, order: Order) -> int:
        """The same by a plain INSERT: a key that is taken is an error, and a key is kept for a day."""
        self.drawn += 1
        if self.queues[order.queue] == "draining":
            raise Refused("OR003")
        if order.key and self._holder(order.key):
            raise Refused("23505")
        return self._put(order, DAY_SECONDS)

    def enqueue_undone(self, order: Order) -> int:
        """Enqueue, and roll back: only the number of the task stays used."""
        answer = copy.deepcopy(self)
        self.drawn += 1
        return answer.enqueue(order)

    def enqueue_after_undone(self, undone: Order, kept: Order) -> int:
        """Roll back one order to a savepoint, then enqueue another in the same transaction."""
        self.drawn += 1
        return self.enqueue(kept)

    def _holder(self, key: str) -> int | None:
        held = self.keys.get(key)
        if held is None or held.expires_at <= self.now or held.task not in self.tasks:
            return None
        return None if self.tasks[held.task].status == "cancelled" else held.task

    def _put(self, order: Order, window: int) -> int:
        if order.key:
            self.keys[order.key] = Key(order.key, self.drawn, self.now + window)
        self.tasks[self.drawn] = Task(
            self.drawn, order.queue, order.priority, order.max_attempts, order.timeout, order.key,
            "scheduled" if order.delay > 0 else "pending", self.now + order.delay,
        )  # fmt: skip
        return self.drawn

    # Workers

    def register(self, worker: int) -> None:
        self.workers[worker] = Worker(worker, self.now)

    def sweep(self) -> tuple[int, tuple[str, ...], int | None]:
        due = [t for t in self.tasks.values() if t.status == "scheduled" and t.run_at <= self.now]
        later = [t.run_at for t in self.tasks.values() if t.status == "scheduled" and t.run_at > self.now]
        for task in due:
            self.tasks[task.id] = replace(task, status="pending")
        return (
            len(due),
            tuple(sorted({t.queue for t in due})),
            min(later) - self.now if later else None,
        )

    def claim(self, worker: int, queues: Sequence[str], batch_size: int, lease: int) -> list[Claim]:
        ready = [
            task
            for queue in queues
            if self._living(worker) and self.queues[queue] != "paused"
            for task in sorted(self.tasks.values(), key=Task.place)
            if task.status == "pending" and task.queue == queue
        ]
        for task in ready[:batch_size]:
            self.tasks[task.id] = replace(
                task, status="claimed", lease=lease, worker=worker, claimed_at=self.now, started_at=None,
                attempt=task.attempt + 1,
            )  # fmt: skip
        return [
            Claim(task.id, lease, worker, task.attempt + 1, task.max_attempts) for task in ready[:batch_size]
        ]

    def begin(self, claims: Sequence[Claim]) -> list[int]:
        mine = [task for claim in claims if (task := self._held(claim))]
        for task in mine:
            self.tasks[task.id] = replace(
                task,
                status="running",
                started_at=max(n for n in (self.now, task.claimed_at) if n is not None),
            )
        return [task.id for task in mine]

    def finish(self, ends: Ends, worker: int) -> set[int]:
        mine = [(task, end) for claim, end in ends if (task := self._held(claim))]
        for task, end in mine:
            self._end(task, end, worker)
        return {task.id for task, _ in mine}

    def was_written(self, claim: Claim) -> bool:
        for row in self.attempts:
            if (row["task_id"], row["lease"]) == (claim.task, claim.lease):
                return bool(row["outcome"] != "lost")
        task = self.tasks.get(claim.task)
        return task is not None and task.status in FINISHED and task.lease == claim.lease

    def beat(self, worker: int, *, beats: bool, draining: bool) -> Beaten:
        leader = self._leader()
        holds = leader is not None and self.now < leader.until <= self.now + 2 * TERM_SECONDS and leader.lives
        me, leads = self.workers.get(worker), leader.id if leader else None
        if me is None or not me.lives:
            return Beaten(False, False, None, (), leads, holds)
        if beats:
            me.beat_at = self.now
            # A draining worker does not renew its term: it should resign, or its term ends.
            me.state = "draining" if draining else me.state
            if me.leads_at(self.now) and me.state == "running":
                me.leader_until = self.now + TERM_SECONDS
        paused = tuple(sorted(name for name, state in self.queues.items() if state == "paused"))
        term = me.term if me.leads_at(self.now) else None
        return Beaten(True, me.state == "draining", term, paused, leads, holds)

    def look(self, worker: int, held: Sequence[Claim]) -> Looked:
        known = {(claim.task, claim.lease) for claim in held}
        lost = {(c.task, c.lease): self._fate(c.task) for c in held if not self._held(c)}
        ghosts = [
            Claim(t.id, t.lease, worker, t.attempt, t.attempt)
            for t in sorted(self.tasks.values(), key=lambda t: t.id)
            if t.status in LEASED and t.worker == worker and t.lease and (t.id, t.lease) not in known
        ]
        return Looked(lost, tuple(ghosts))

    def deregister(self, worker: int) -> None:
        me = self.workers.get(worker)
        if me and me.lives and not self._tasks_of(worker):
            me.state, me.beat_at = "stopped", self.now

    def _fate(self, task_id: int) -> str:
        if task_id not in self.tasks:
            return "deleted"
        status = self.tasks[task_id].status
        return status if status in FINISHED else f"requeued, it is {status}"

    def _held(self, claim: Claim) -> Task | None:
        """Return the task if this lease is valid."""
        task = self.tasks.get(claim.task)
        return task if task and task.status in LEASED and task.lease == claim.lease else None

    def _end(self, task: Task, end: End, worker: int) -> None:
        match end:
            case Completed(result):
                self._close(task, "completed", error=None, result=result)
            case Cancelled():
                self._close(task, "cancelled", error="Cancelled")
            case DeadLettered(fault, kind):
                self._record(task, kind, fault.class_name, worker=worker, lease=task.lease)
                self._close(task, "dead_letter", error=fault.class_name)
            case Failed(fault, kind, after):
                self._record(task, kind, fault.class_name, worker=worker, lease=task.lease)
                self._put_back(task, after=int(after), error=fault.class_name)
            case Snoozed(after):
                self._put_back(task, after=int(after), attempt=task.attempt - 1)
            case PutBack(fault, after, _):
                self._put_back(task, after=int(after), attempt=task.attempt - 1, error=fault.class_name)
            case Released():
                self._put_back(task, attempt=task.attempt - 1)

    def _close(self, task: Task, status: str, **changes: object) -> None:
        self.tasks[task.id] = replace(task, status=status, finished_at=self.now, **changes)  # type: ignore[arg-type]  # columns

    def _put_back(self, task: Task, *, after: int | None = None, **changes: object) -> None:
        self.tasks[task.id] = replace(
            task, status="scheduled" if after else "pending", lease=None, worker=None,
            run_at=task.run_at if after is None else self.now + after, **changes,  # type: ignore[arg-type]  # columns
        )  # fmt: skip

    def _record(self, task: Task, outcome: str, error: str, *, worker: int | None, lease: int | None) -> None:
        self.attempts.append(
            {
                "task_id": task.id, "attempt": task.attempt, "outcome": outcome, "error": error, "lease": lease,
                "worker": worker, "started_at": task.started_at, "finished_at": self.now,
            }
        )  # fmt: skip

    def _living(self, worker: int) -> bool:
        return worker in self.workers and self.workers[worker].lives

    def _leader(self) -> Worker | None:
        return next((worker for worker in self.workers.values() if worker.is_leader), None)

    def _tasks_of(self, worker: int) -> list[Task]:
        return [t for t in self.tasks.values() if t.status in LEASED and t.worker == worker]
