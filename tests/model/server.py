"""The database of the model: a few rows, which of them are on disk, the locks, and the clock.

    Server ── now     the tables as every session sees them
           ├─ disk    the tables as a crash would leave them; None: the same
           ├─ duties  the open transactions of leaders, one for each worker
           └─ up      which worker processes are alive (the server sees their sessions)

*Commits.* The log is written in order. A durable commit flushes everything before it. An asynchronous commit may or
may not be on disk when the server crashes. The model tries both at the moment of the commit. This covers every later
moment, because no session can see the difference before the crash. A tick of the clock (seconds) is longer than the
pause of the log writer (0.6 s at most), so a tick flushes everything.

*Time* is kept as ages: since the last beat, and until the end of the term. An age stops where nothing more depends on
it. The clock is the server's, and a crash does not set it back.

*Locks* are held only by a duty: KEY SHARE on the leader's row, and after its statement the worker row and the task
rows that it writes. Every other statement commits at once.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.explore import Step
from tests.model.rules import Bounds

WAITING, CLAIMED, RUNNING, DONE, DEAD = "waiting", "claimed", "running", "done", "dead"
HELD = (CLAIMED, RUNNING)
ENDED = (DONE, DEAD)


class Row(NamedTuple):
    """A task. A write compares `token` where a variant has no random lease. Otherwise it reads `Hold.live`."""

    status: str
    attempt: int = 0
    losses: int = 0
    holder: int | None = None
    token: int = 0


class Member(NamedTuple):
    """A row of `workers`. `alive`: not declared dead. `age`: the time since the last beat."""

    alive: bool
    age: int


class Lead(NamedTuple):
    """The leader's row. `latest`: its term is the last that was drawn. `left`: the rest of the term."""

    holder: int
    left: int
    latest: bool = True


class Tables(NamedTuple):
    """All data that is written to the log. `behind`: how many drawn terms the sequence has forgotten."""

    tasks: tuple[Row, ...]
    members: tuple[Member, ...]
    lead: Lead | None = None
    behind: int = 0
    sequence: int = 0


class Duty(NamedTuple):
    """A leader's open transaction. `written`: its statement has run. `latest`: as in `Lead`, for its term."""

    locks: bool
    latest: bool
    written: bool = False
    target: int | None = None
    picked: tuple[int, bool] | None = None


class Server(NamedTuple):
    """All state that workers share."""

    now: Tables
    disk: Tables | None
    duties: tuple[Duty | None, ...]
    up: tuple[bool, ...]

    def durable(self, **changes: Any) -> "Server":
        """Return the server after a commit that waits for the disk."""
        return self._replace(now=self.now._replace(**changes), disk=None)

    def lazy(self, **changes: Any) -> "list[Server]":
        """Return the possible servers after a commit that does not wait: it is on disk, or it is not."""
        now = self.now._replace(**changes)
        if now == self.now:
            return [self]
        before = self.disk or self.now
        return [
            self._replace(now=now, disk=None),
            self._replace(now=now, disk=None if before == now else before),
        ]

    def with_task(self, task: int, row: Row) -> tuple[Row, ...]:
        return put(self.now.tasks, task, row)

    def with_member(self, who: int, member: Member) -> tuple[Member, ...]:
        return put(self.now.members, who, member)

    def with_duty(self, who: int, duty: Duty | None) -> "Server":
        return self._replace(duties=put(self.duties, who, duty))

    def task_is_locked(self, task: int) -> bool:
        """Return whether the statement of a duty has locked this row."""
        return any(duty is not None and duty.written and self._covers(duty, task) for duty in self.duties)

    def member_is_locked(self, who: int) -> bool:
        """Return whether the statement of a duty has locked this worker's row FOR UPDATE. KEY SHARE stops no beat."""
        return any(duty is not None and duty.written and duty.target == who for duty in self.duties)

    def lead_is_shared(self) -> bool:
        """Return whether a duty has locked the leader's row FOR KEY SHARE, so that FOR UPDATE waits."""
        duty = self.duties[self.now.lead.holder] if self.now.lead else None
        return duty is not None and duty.locks

    def _covers(self, duty: Duty, task: int) -> bool:
        if duty.picked is not None:
            return duty.picked[0] == task
        row = self.now.tasks[task]
        return row.status in HELD and row.holder == duty.target


def put(values: tuple[Any, ...], place: int, value: object) -> tuple[Any, ...]:
    """Return a tuple with one place changed."""
    return (*values[:place], value, *values[place + 1 :])


def steps(server: Server, bounds: Bounds) -> Iterator[Step]:
    """Yield the steps that need no worker."""
    yield from tick(server, bounds)
    if bounds.crashes:
        yield from crash(server)
    if bounds.manual_changes:
        yield from manual_changes(server)
    for who, duty in enumerate(server.duties):
        if duty is not None:
            name = f"the server ends the duty of {letter(who)}, which took too long"
            yield Step(name, server.with_duty(who, None))


def tick(server: Server, bounds: Bounds) -> Iterator[Step]:
    """One to ten seconds pass. The step is a fault if a living worker has not beaten since the last tick."""
    now = server.now
    members = tuple(m._replace(age=min(m.age + 1, bounds.dead_after)) if m.alive else m for m in now.members)
    lead = now.lead and now.lead._replace(left=max(now.lead.left - 1, 0))
    after = now._replace(members=members, lead=lead)
    if after != now or server.disk is not None:
        late = any(up and m.alive and m.age for up, m in zip(server.up, now.members, strict=True))
        yield Step("time passes", server._replace(now=after, disk=None), fault=late)


def crash(server: Server) -> Iterator[Step]:
    """Lose all data that is not on disk, and all open transactions. Replies on their way may still arrive."""
    now, disk = server.now, server.disk
    if disk is None and not any(server.duties):
        return
    name = "the server crashes"
    lost: tuple[int, ...] = ()
    if disk is not None:
        name += " and forgets " + forgotten(now, disk)
        lost = tuple(
            task
            for task, (row, before) in enumerate(zip(now.tasks, disk.tasks, strict=True))
            if row.status in HELD and before.status not in HELD
        )
    after = Server(disk or now, None, (None,) * len(server.up), server.up)
    yield Step(name, after, others=("lease", lost) if lost else None, fault=True)


def manual_changes(server: Server) -> Iterator[Step]:
    """An operator writes plain SQL. The trigger clears the lease, and a requeue resets the counts."""
    for task, row in enumerate(server.now.tasks):
        if server.task_is_locked(task):
            continue
        fenced_off = ("lease", (task,)) if row.status in HELD else None
        if row.status != WAITING:
            after = server.durable(tasks=server.with_task(task, Row(WAITING)))
            yield Step(
                f"an operator requeues task {task}, which is {row.status}",
                after,
                others=fenced_off,
                fault=True,
            )
        if row.status not in ENDED:
            after = server.durable(tasks=server.with_task(task, Row(DONE)))
            yield Step(
                f"an operator cancels task {task}, which is {row.status}",
                after,
                others=fenced_off,
                fault=True,
            )


def forgotten(now: Tables, disk: Tables) -> str:
    """Return the writes that a crash loses, in words."""
    tasks = [(row, before) for row, before in zip(now.tasks, disk.tasks, strict=True) if row != before]
    lost = ["a claim" if before.status == WAITING else "a start" for _, before in tasks]
    if now.members != disk.members:
        lost.append("a beat")
    if now.lead != disk.lead:
        lost.append("a renewal" if disk.behind == now.behind else "an election")
    return " and ".join(dict.fromkeys(lost))


def letter(who: int) -> str:
    """Return the name of a worker."""
    return "ABCDEFGH"[who]
