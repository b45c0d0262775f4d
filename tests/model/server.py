"""The database of the model: a few rows, what of them is on disk, who holds which lock, and the clock.

    Server ── now     the tables as everybody sees them
           ├─ disk    the tables as a crash would leave them; None: the same
           ├─ duties  the leaders' open transactions, one a worker
           └─ up      which workers' processes live (their sessions are the server's to see)

*Commits.* The log is written in order. A durable commit takes everything before it to the disk. An asynchronous one
may or may not be there when the server crashes: both are tried, at the commit, which equals every later moment, for
nobody can see the difference before the crash. A tick of the clock (seconds) is longer than the log writer's pause
(0.6 s at most), so it takes everything to the disk.

*Time* is kept as ages: since the last beat, until the end of the term. They stop where nothing more depends on them.
The clock is the server's, and no crash sets it back.

*Locks* are a duty's: its KEY SHARE on the leading row, and from its statement on the worker row and the task rows
that it writes. Every other statement commits at once.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.explore import Step
from tests.model.rules import Bounds

WAITING, CLAIMED, RUNNING, DONE, DEAD = "waiting", "claimed", "running", "done", "dead"
HELD = (CLAIMED, RUNNING)
ENDED = (DONE, DEAD)


class Row(NamedTuple):
    """A task. `token` is what a write compares where the lease is no random number; else the holds' bits tell."""

    status: str
    attempt: int = 0
    losses: int = 0
    holder: int | None = None
    token: int = 0


class Member(NamedTuple):
    """A row of `workers`: not yet declared dead, and how long ago it last beat."""

    alive: bool
    age: int


class Lead(NamedTuple):
    """The row that leads. `latest`: its term is the last that was drawn."""

    holder: int
    left: int
    latest: bool = True


class Tables(NamedTuple):
    """All that is written to the log. `behind`: how many drawn terms the sequence has forgotten."""

    tasks: tuple[Row, ...]
    members: tuple[Member, ...]
    lead: Lead | None = None
    behind: int = 0
    sequence: int = 0


class Duty(NamedTuple):
    """A leader's open transaction: fenced, and then its statement has run. `latest` is its term, as above."""

    locks: bool
    latest: bool
    written: bool = False
    target: int | None = None
    picked: tuple[int, bool] | None = None


class Server(NamedTuple):
    """Everything that workers share."""

    now: Tables
    disk: Tables | None
    duties: tuple[Duty | None, ...]
    up: tuple[bool, ...]

    def durable(self, **changes: Any) -> "Server":
        """Commit, and wait for the disk."""
        return self._replace(now=self.now._replace(**changes), disk=None)

    def lazy(self, **changes: Any) -> "list[Server]":
        """Commit without waiting: it is on the disk, or it is not."""
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
        """Say whether some duty's statement has locked this row."""
        return any(duty is not None and duty.written and self._covers(duty, task) for duty in self.duties)

    def member_is_locked(self, who: int) -> bool:
        """Say whether some duty's statement has this worker's row FOR UPDATE. KEY SHARE does not stop a beat."""
        return any(duty is not None and duty.written and duty.target == who for duty in self.duties)

    def lead_is_shared(self) -> bool:
        """Say whether the leading row is held FOR KEY SHARE, so that FOR UPDATE has to wait."""
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
    """Yield what happens without a worker."""
    yield from tick(server, bounds)
    if bounds.crashes:
        yield from crash(server)
    if bounds.hands:
        yield from hands(server)
    for who, duty in enumerate(server.duties):
        if duty is not None:
            name = f"the server ends the duty of {letter(who)}, which took too long"
            yield Step(name, server.with_duty(who, None))


def tick(server: Server, bounds: Bounds) -> Iterator[Step]:
    """A second or ten pass. It counts as a fault when somebody who lives has not beaten since the last time."""
    now = server.now
    members = tuple(m._replace(age=min(m.age + 1, bounds.dead_after)) if m.alive else m for m in now.members)
    lead = now.lead and now.lead._replace(left=max(now.lead.left - 1, 0))
    after = now._replace(members=members, lead=lead)
    if after != now or server.disk is not None:
        late = any(up and m.alive and m.age for up, m in zip(server.up, now.members, strict=True))
        yield Step("time passes", server._replace(now=after, disk=None), fault=late)


def crash(server: Server) -> Iterator[Step]:
    """What is not on the disk is forgotten, and no transaction is open. Replies on their way may still arrive."""
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


def hands(server: Server) -> Iterator[Step]:
    """Somebody writes plain SQL. The trigger clears the lease, and a requeue starts the counts afresh."""
    for task, row in enumerate(server.now.tasks):
        if server.task_is_locked(task):
            continue
        fenced_off = ("lease", (task,)) if row.status in HELD else None
        if row.status != WAITING:
            after = server.durable(tasks=server.with_task(task, Row(WAITING)))
            yield Step(
                f"a hand requeues task {task}, which is {row.status}", after, others=fenced_off, fault=True
            )
        if row.status not in ENDED:
            after = server.durable(tasks=server.with_task(task, Row(DONE)))
            yield Step(
                f"a hand cancels task {task}, which is {row.status}", after, others=fenced_off, fault=True
            )


def forgotten(now: Tables, disk: Tables) -> str:
    """Say what a crash takes away."""
    tasks = [(row, before) for row, before in zip(now.tasks, disk.tasks, strict=True) if row != before]
    lost = ["a claim" if before.status == WAITING else "a start" for _, before in tasks]
    if now.members != disk.members:
        lost.append("a beat")
    if now.lead != disk.lead:
        lost.append("a renewal" if disk.behind == now.behind else "an election")
    return " and ".join(dict.fromkeys(lost))


def letter(who: int) -> str:
    """Name a worker."""
    return "ABCDEFGH"[who]
