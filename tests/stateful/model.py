"""The reference: what the queue is meant to do, on a dict of tasks.

Written from the contract (DESIGN, the header of each .sql), not from the statements: no locks, no leaves, no batches.
It answers each question in the words of `words.py`, as the database does (ground.py), and `snapshot` is all it holds.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from orchestrator.task.outcome import Buried, Cancelled, Completed, End, Failed, PutBack, Released, Snoozed
from orchestrator.task.status import FINISHED, LEASED
from tests.stateful.hand import edited
from tests.stateful.rows import Key, Row, Task, Worker
from tests.stateful.words import (
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
    Looked,
    Order,
    Refused,
    Reign,
    Snapshot,
)

DAY_SECONDS = 86_400


@dataclass
class Model:
    """Everything there is, and what each deed makes of it."""

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
        """Return all of it, as rows."""
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
        """The same by a bare INSERT: a key that is taken is an error, and its window a day."""
        self.drawn += 1
        if self.queues[order.queue] == "draining":
            raise Refused("OR003")
        if order.key and self._holder(order.key):
            raise Refused("23505")
        return self._put(order, DAY_SECONDS)

    def enqueue_undone(self, order: Order) -> int:
        """Rolled back: a number was drawn, nothing else was."""
        answer = copy.deepcopy(self)
        self.drawn += 1
        return answer.enqueue(order)

    def enqueue_after_undone(self, undone: Order, kept: Order) -> int:
        """One order rolled back to a savepoint, then another in the same transaction."""
        self.drawn += 1
        return self.enqueue(kept)

    def _holder(self, key: str) -> int | None:
        held = self.keys.get(key)
        return held.task if held and held.expires_at > self.now and held.task in self.tasks else None

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
            self.tasks[task.id] = replace(task, status="running", started_at=self.now)
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
            return Beaten(False, False, None, (), leads, holds, self._peers())
        if beats:
            me.beat_at = self.now
            me.state = "draining" if draining else me.state
            if me.leads_at(self.now):
                me.leader_until = self.now + TERM_SECONDS
        paused = tuple(sorted(name for name, state in self.queues.items() if state == "paused"))
        term = me.term if me.leads_at(self.now) else None
        return Beaten(True, me.state == "draining", term, paused, leads, holds, self._peers())

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
        """The task, if this lease still allows to write it."""
        task = self.tasks.get(claim.task)
        return task if task and task.status in LEASED and task.lease == claim.lease else None

    def _end(self, task: Task, end: End, worker: int) -> None:
        match end:
            case Completed(result):
                self._close(task, "completed", error=None, result=result)
            case Cancelled():
                self._close(task, "cancelled", error="Cancelled")
            case Buried(fault, kind):
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

    def _peers(self) -> int:
        return sum(worker.lives for worker in self.workers.values())

    def _leader(self) -> Worker | None:
        return next((worker for worker in self.workers.values() if worker.is_leader), None)

    def _tasks_of(self, worker: int) -> list[Task]:
        return [t for t in self.tasks.values() if t.status in LEASED and t.worker == worker]

    # The lead

    def elect(self, worker: int) -> Reign | None:
        leader = self._leader()
        if leader and not (self.now < leader.until <= self.now + 2 * TERM_SECONDS and leader.lives):
            leader.is_leader, leader.leader_until = False, None
        me = self.workers.get(worker)
        if self._leader() or me is None or me.state != "running":
            return None
        self.terms += 1
        me.is_leader, me.term, me.leader_until = True, self.terms, self.now + TERM_SECONDS
        return Reign(worker, self.terms)

    def resign(self, reign: Reign) -> bool:
        me = self.workers.get(reign.worker)
        if me is None or not me.is_leader or me.term != reign.term:
            return False
        me.is_leader, me.leader_until = False, None
        return True

    def recover(self, reign: Reign) -> tuple[int, int, int]:
        """Declare dead whose beat is too old, and take back what the dead hold."""
        self._fence(reign)
        holders = {t.worker for t in self.tasks.values() if t.status in LEASED and t.worker}
        gone = holders - self.workers.keys()
        declared = 0
        for worker in self.workers.values():
            if worker.state == "dead" or (
                self.now - worker.beat_at > DEAD_AFTER_SECONDS and (worker.lives or worker.id in holders)
            ):
                gone.add(worker.id)
                declared += worker.state != "dead"
                worker.state = "dead"
            elif worker.lives and worker.beat_at > self.now + DEAD_AFTER_SECONDS:
                worker.beat_at = self.now
        orphans = [task for worker in gone for task in self._tasks_of(worker)]
        for task in orphans:
            self._orphan(task)
        buried = sum(self.tasks[task.id].status == "dead_letter" for task in orphans)
        return len(orphans) - buried, buried, declared

    def enforce_timeouts(self, reign: Reign) -> bool:
        self._fence(reign)
        for task in list(self.tasks.values()):
            if task.status != "running" or task.started_at is None or not task.timeout:
                continue
            if self.now - task.started_at - task.timeout > TIMEOUT_MARGIN_SECONDS:
                self._time_out(task)
        return False

    def _fence(self, reign: Reign) -> None:
        me = self.workers.get(reign.worker)
        if me is None or not me.leads_at(self.now) or me.term != reign.term:
            raise Refused(TERM_OVER)

    def _orphan(self, task: Task) -> None:
        if task.status == "claimed":
            return self._put_back(task, attempt=task.attempt - 1)
        self._record(task, "lost", "WorkerLost", worker=task.worker, lease=task.lease)
        if task.attempt >= task.max_attempts or task.losses >= 2:
            return self._close(task, "dead_letter", losses=task.losses + 1, error="WorkerLost")
        return self._put_back(task, losses=task.losses + 1, error="WorkerLost")

    def _time_out(self, task: Task) -> None:
        self._record(task, "timeout", "Timeout", worker=task.worker, lease=None)
        if task.attempt >= task.max_attempts:
            return self._close(task, "dead_letter", lease=None, error="Timeout")
        wait = min(BACKOFF_BASE_SECONDS * 2 ** (task.attempt - 1), BACKOFF_CAP_SECONDS)
        return self._put_back(task, after=wait, error="Timeout")

    # Hands

    def edit(self, task_ids: Sequence[int], edit: Edit) -> None:
        """One UPDATE of these tasks: all of them, or none."""
        found = [self.tasks[n] for n in sorted(set(task_ids)) if n in self.tasks]
        changed = [(old, edited(old, edit, self.now)) for old in found]
        for old, new in changed:
            self.tasks[new.id] = new
            if action := audited(old, new):
                self._write_down(action, new)

    def edit_queue(self, queue: str, edit: Edit) -> None:
        self.edit([t.id for t in self.tasks.values() if t.queue == queue], edit)

    def cancel(self, task_id: int) -> None:
        self._known(task_id)
        self.edit([task_id], Edit(status="cancelled"))

    def requeue(self, task_id: int) -> None:
        self._known(task_id)
        self.edit([task_id], Edit(status="pending"))

    def requeue_where(self, status: str, queue: str, at_most: int) -> int:
        found = [t for t in self.tasks.values() if t.status == status and t.queue == queue]
        chosen = sorted(found, key=lambda t: (t.finished_at, t.id))[:at_most]
        self.edit([task.id for task in chosen], Edit(status="pending"))
        return len(chosen)

    def delete(self, task_id: int) -> None:
        if task := self.tasks.pop(task_id, None):
            self.keys = {k: key for k, key in self.keys.items() if key.task != task_id}
            self._write_down("delete", task)

    def set_queue(self, queue: str, state: str) -> None:
        self.queues[queue] = state
        action = {"active": "resume", "paused": "pause", "draining": "drain"}[state]
        self.audit.append({"action": action, "task_id": None, "queue": queue})

    def erase_worker(self, worker: int) -> None:
        self.workers.pop(worker, None)

    def _known(self, task_id: int) -> None:
        if task_id not in self.tasks:
            raise Refused("OR004")

    def _write_down(self, action: str, task: Task) -> None:
        self.audit.append({"action": action, "task_id": task.id, "queue": task.queue})


def audited(old: Task, new: Task) -> str | None:
    """Say what a hand did, in the words of the audit."""
    if old == new:
        return None
    if old.status != new.status and new.status == "cancelled":
        return "cancel"
    if old.status != new.status and old.status not in ("scheduled", "pending"):
        return "requeue"
    if (old.run_at, old.status) != (new.run_at, new.status):
        return "run_at"
    return "priority"
