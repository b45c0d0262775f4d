"""The coordination of workers as a system whose states a walk can visit, one by one, to the last.

The parts of the model:

    server.py        rows, clock, data lost in a crash; an operator's statements that requeue and cancel at any moment
    worker_steps.py  claim, start, outcome, retry, snooze, beat, ghosts: the lease
    leading.py       election, renewal, resigning, duties, recovery: the term
    rules.py         the possible mistakes, and the size of the system
    variants.py      each mistake, and the invariant that must catch it

*Only small things are bounded.* Claims, leases, terms, beats, crashes, kills, lost replies and ticks are unbounded.
Only workers, tasks and attempts are few. Two rules make the states finite: ages and terms stop where nothing more
depends on them, and a lease or a term, which is never drawn twice, is kept as one bit: "this is still the current
one". A walk that ends has seen every state of a system of that size, not only those up to some number of steps.

*One step is one statement*, or one reply. A statement on a row sees that row before or after another statement, never
in between. A duty is three steps: the fence, the statement and the commit. Its locks are held between them.

*Events without a step of their own.* A frozen process (SIGSTOP) is one that takes no step while time passes. Every
state has such a continuation, also within a duty. A black hole is the same, or a lost reply. When a worker learns late
that it lost a task, that is a beat whose reply was lost: a voided lease never becomes valid again, so the late news is
still true. For the same reason the worker decides what is a ghost when it reads the reply, not when the server writes
it. A task that it holds by then, or whose claim is on its way, is no ghost. The product must do this as well, because
its beat runs in a thread beside the claims.

*A new worker* starts after a kill, or after its predecessor was declared dead. In the model it takes the predecessor's
place once the predecessor has no task and no running term. In the product it has a new uuid at once.

*Progress.* A state is stuck if no path without faults leads to the end of all tasks. Without faults means: no kill, no
lost reply, no manual change, no crash of the server, and never two ticks without a beat of a living worker between.

*Not modelled*: delays of retries and snoozes (due at once) · priorities, queues, batches, and so a batch that is
accepted in part · the beacon, which only moves the moment of death forward · timeouts, retention and partitions
(duties like any other: the fence is the same; "housekeeping" stands for them) · the unique index on `is_leader` (an
election is one step) · a worker with more than one held task, one claim on its way and one ghost · failover to a
standby that lost durable commits · a clock that is set back · deadlocks and serialization failures (retried whole) ·
the text of the SQL: tests/races and the tests with a database check that.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from tests.model import invariants, leading, server, worker_steps
from tests.model.explore import Step
from tests.model.rules import Bounds, Rules
from tests.model.server import ENDED, HELD, Member, Row, Server, Tables, letter, put
from tests.model.worker_steps import Memory


class Queue:
    """The system: one server and identical workers."""

    goal = invariants.LIVE

    def __init__(self, bounds: Bounds, rules: Rules | None = None) -> None:
        self._bounds = bounds
        self._rules = rules or Rules()

    def start(self) -> tuple[Server, tuple[Memory | None, ...]]:
        workers, tasks = self._bounds.workers, self._bounds.tasks
        tables = Tables((Row(server.WAITING),) * tasks, (Member(True, 0),) * workers)
        return Server(tables, None, (None,) * workers, (True,) * workers), (Memory(),) * workers

    def shared_steps(self, shared: Server) -> Iterable[Step]:
        return server.steps(shared, self._bounds)

    def local_steps(self, shared: Server, local: Memory | None, who: int) -> Iterator[Step]:
        assert local is None or is_true(shared, local, who), (
            f"the model's own bits are wrong: {shared} {local}"
        )
        for step in self._worker(shared, local, who):
            if (
                step.broken is None
                and step.shared is not shared
                and not within_bounds(step.shared, self._bounds)
            ):
                step = step._replace(broken=invariants.COUNTED)
            yield step

    def _worker(self, shared: Server, memory: Memory | None, who: int) -> Iterator[Step]:
        bounds, rules = self._bounds, self._rules
        if not shared.up[who] or memory is None:
            yield from begin_anew(shared, who)
        if not shared.up[who]:
            return
        yield from kill(shared, who, bounds)
        yield from leading.statement(shared, memory, who, bounds, rules)
        yield from leading.commit(shared, memory, who, bounds, rules)
        if memory is None:
            return
        yield from worker_steps.claim(shared, memory, who, bounds, rules)
        yield from worker_steps.claim_reply(shared, memory, who, bounds)
        yield from worker_steps.start(shared, memory, who, rules)
        yield from worker_steps.finish(shared, memory, who, bounds, rules)
        yield from worker_steps.beat(shared, memory, who, bounds, rules)
        yield from worker_steps.give_back(shared, memory, who, bounds, rules)
        yield from leading.elect(shared, memory, who, bounds, rules)
        yield from leading.resign(shared, memory, who, rules)
        yield from leading.fence(shared, memory, who, bounds, rules)

    def touched(self, local: Memory, others: tuple[Any, ...]) -> Memory:
        match others:
            case ("term",):
                return local._replace(term=None if local.term is None else False)
            case ("lease", tasks):
                return local.without_lease(tasks)
            case _:
                raise AssertionError(others)

    def is_goal(self, shared: Server) -> bool:
        return all(row.status in ENDED for row in shared.now.tasks)


def kill(shared: Server, who: int, bounds: Bounds) -> Iterator[Step]:
    """kill -9: the memory is lost, and the server ends the open transaction. At least one worker stays alive."""
    if bounds.kills and sum(shared.up) > 1:
        after = shared.with_duty(who, None)._replace(up=put(shared.up, who, False))
        yield Step(f"{letter(who)} is killed", after, None, fault=True)


def begin_anew(shared: Server, who: int) -> Iterator[Step]:
    """Register as a new worker. It takes the old one's place once the old one has no task and no running term."""
    tables = [shared.now, *([shared.disk] if shared.disk else [])]
    if shared.now.members[who].alive or shared.duties[who] or any(named(t, who) for t in tables):
        return
    # A term that has run out counts as none.
    lead = None if shared.now.lead and shared.now.lead.holder == who else shared.now.lead
    after = shared.durable(members=shared.with_member(who, Member(True, 0)), lead=lead)
    yield Step(f"a new worker {letter(who)} begins", after._replace(up=put(shared.up, who, True)), Memory())


def named(tables: Tables, who: int) -> bool:
    """Return whether this worker holds a task or a running term."""
    held = any(row.status in HELD and row.holder == who for row in tables.tasks)
    return held or (tables.lead is not None and tables.lead.holder == who and tables.lead.left > 0)


def is_true(shared: Server, memory: Memory, who: int) -> bool:
    """Return whether the bits that stand for leases and terms agree with the tables."""
    holds = [held for held in (memory.claim, memory.hold, memory.ghost) if held and held.live]
    rows = [shared.now.tasks[held.task] for held in holds]
    lead = shared.now.lead
    return all(row.status in HELD and row.holder == who for row in rows) and not (
        memory.term and lead and lead.latest and lead.holder != who
    )


def within_bounds(shared: Server, bounds: Bounds) -> bool:
    return all(
        (1 if row.status in HELD else 0) <= row.attempt <= bounds.attempts_max
        and row.losses < bounds.losses_max
        for row in shared.now.tasks
    )
