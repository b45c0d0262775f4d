"""The reference: the intended behaviour of the queue, on a dict of tasks.

It follows the contract (the header of each .sql), not the statements: no locks, no leaves, no batches. It answers with
the types of `words.py`, like the database (database.py), and `snapshot` is its whole content.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orchestrator.task.status import LEASED
from tests.stateful.interface import (
    BACKOFF_BASE_SECONDS,
    BACKOFF_CAP_SECONDS,
    DEAD_AFTER_SECONDS,
    TERM_OVER,
    TERM_SECONDS,
    TIMEOUT_MARGIN_SECONDS,
    Edit,
    Leadership,
    Refused,
)
from tests.stateful.kept_state import Kept
from tests.stateful.manual_update import edited
from tests.stateful.rows import Task


class Model(Kept):
    """The stored state, and the effects of the leader and of manual changes."""

    # The leader

    def elect(self, worker: int) -> Leadership | None:
        leader = self._leader()
        if leader and not (self.now < leader.until <= self.now + 2 * TERM_SECONDS and leader.lives):
            leader.is_leader, leader.leader_until = False, None
        me = self.workers.get(worker)
        if self._leader() or me is None or me.state != "running":
            return None
        self.terms += 1
        me.is_leader, me.term, me.leader_until = True, self.terms, self.now + TERM_SECONDS
        return Leadership(worker, self.terms)

    def resign(self, leadership: Leadership) -> bool:
        me = self.workers.get(leadership.worker)
        if me is None or not me.is_leader or me.term != leadership.term:
            return False
        me.is_leader, me.leader_until = False, None
        return True

    def recover(self, leadership: Leadership) -> tuple[int, int, int]:
        """Declare workers with an old beat dead, and take back the tasks of dead workers."""
        self._fence(leadership)
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
        dead_lettered = sum(self.tasks[task.id].status == "dead_letter" for task in orphans)
        return len(orphans) - dead_lettered, dead_lettered, declared

    def enforce_timeouts(self, leadership: Leadership) -> bool:
        self._fence(leadership)
        for task in list(self.tasks.values()):
            if task.status != "running" or task.started_at is None or not task.timeout:
                continue
            over_at = task.started_at + task.timeout + TIMEOUT_MARGIN_SECONDS
            holder = self.workers.get(task.worker or 0)
            # A worker that has not beaten since may hold the outcome. If it stays silent, recovery takes it back.
            if self.now > over_at and holder and holder.beat_at > over_at:
                self._time_out(task)
        return False

    def _fence(self, leadership: Leadership) -> None:
        me = self.workers.get(leadership.worker)
        if me is None or not me.leads_at(self.now) or me.term != leadership.term:
            raise Refused(TERM_OVER)

    def _orphan(self, task: Task) -> None:
        if task.status == "claimed":
            # With an error: because of it, the next worker marks the task running before it starts it.
            return self._put_back(task, attempt=task.attempt - 1, error=task.error or "WorkerLost")
        self._record(task, "lost", "WorkerLost", worker=task.worker, lease=task.lease)
        if task.losses >= 4:
            return self._close(task, "dead_letter", losses=task.losses + 1, error="WorkerLost")
        left = min(task.attempt, task.max_attempts - 1)
        return self._put_back(task, attempt=left, losses=task.losses + 1, error="WorkerLost")

    def _time_out(self, task: Task) -> None:
        self._record(task, "timeout", "Timeout", worker=task.worker, lease=None)
        if task.attempt >= task.max_attempts:
            return self._close(task, "dead_letter", lease=None, error="Timeout")
        wait = min(BACKOFF_BASE_SECONDS * 2 ** (task.attempt - 1), BACKOFF_CAP_SECONDS)
        return self._put_back(task, after=wait, error="Timeout")

    # Manual changes

    def edit(self, task_ids: Sequence[int], edit: Edit) -> None:
        """One UPDATE of these tasks: all of them, or none."""
        found = [self.tasks[n] for n in sorted(set(task_ids)) if n in self.tasks]
        changed = [(old, edited(old, edit, self.now)) for old in found]
        after = {new.id: new for _, new in changed}
        returned: dict[str, int] = {}
        for old, new in changed:
            if old.status == "cancelled" != new.status and old.key:
                self._return_key(old.key, old.id, returned, after)
        for key, task_id in returned.items():
            self.keys[key] = replace(self.keys[key], task=task_id)
        for old, new in changed:
            self._taken_away(old, new)
            self.tasks[new.id] = new
            if action := audited(old, new):
                self._write_down(action, new)

    def _return_key(self, key: str, to: int, returned: dict[str, int], after: Mapping[int, Task]) -> None:
        """A cancelled task that runs again gets its key back, unless a task that is not cancelled has taken it."""
        held = self.keys.get(key)
        if held is None or held.expires_at <= self.now:
            return
        has_it = returned.get(key, held.task)
        holder = after.get(has_it) or self.tasks.get(has_it)
        if has_it != to and holder and holder.status != "cancelled":
            raise Refused("23505")
        returned[key] = to

    def edit_queue(self, queue: str, edit: Edit) -> None:
        self.edit([t.id for t in self.tasks.values() if t.queue == queue], edit)

    def cancel(self, task_id: int) -> None:
        self._known(task_id)
        self.edit([task_id], Edit(status="cancelled"))

    def requeue(self, task_id: int) -> None:
        self._known(task_id)
        self.edit([task_id], Edit(status="pending"))

    def requeue_where(self, status: str, queue: str, at_most: int) -> int:
        found = [
            t
            for t in self.tasks.values()
            if t.status == status and t.queue == queue and not self._has_lost_key(t)
        ]
        chosen = sorted(found, key=lambda t: (t.finished_at, t.id))[:at_most]
        self.edit([task.id for task in chosen], Edit(status="pending"))
        return len(chosen)

    def _has_lost_key(self, task: Task) -> bool:
        held = self.keys.get(task.key or "")
        taken = held is not None and held.expires_at > self.now and held.task != task.id
        return task.status == "cancelled" and taken

    def delete(self, task_id: int) -> None:
        if task := self.tasks.pop(task_id, None):
            self._taken_away(task, None)
            self.keys = {k: key for k, key in self.keys.items() if key.task != task_id}
            self._write_down("delete", task)

    def set_queue(self, queue: str, state: str) -> None:
        self.queues[queue] = state
        action = {"active": "resume", "paused": "pause", "draining": "drain"}[state]
        self.audit.append({"action": action, "task_id": None, "queue": queue})

    def erase_worker(self, worker: int) -> None:
        self.workers.pop(worker, None)

    def _taken_away(self, old: Task, new: Task | None) -> None:
        """A running task that loses its lease leaves a record."""
        if old.status == "running" and (new is None or new.lease is None):
            self._record(old, "lost", "LeaseLost", worker=old.worker, lease=old.lease)

    def _known(self, task_id: int) -> None:
        if task_id not in self.tasks:
            raise Refused("OR004")

    def _write_down(self, action: str, task: Task) -> None:
        self.audit.append({"action": action, "task_id": task.id, "queue": task.queue})


def audited(old: Task, new: Task) -> str | None:
    """Return the audit's name of a manual change."""
    if old == new:
        return None
    if old.status != new.status and new.status == "cancelled":
        return "cancel"
    if old.status != new.status and old.status not in ("scheduled", "pending"):
        return "requeue"
    if (old.run_at, old.status) != (new.run_at, new.status):
        return "run_at"
    return "priority"
