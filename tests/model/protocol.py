"""The coordination of workers as a system that can be walked through, state by state, to the last one.

What is modelled, and where it is written:

    server.py    rows, clock, what a crash forgets; hands that requeue and cancel in the midst of everything
    holding.py   claim, start, outcome, retry, snooze, beat, ghosts: the lease
    leading.py   election, renewal, resigning, duties, recovery: the term
    rules.py     the ways to get it wrong, and how much of the world there is
    variants.py  each of the ways, and the invariant that must catch it

*Nothing is counted that the world does not count.* Claims, leases, terms, beats, crashes, kills, lost replies and
ticks are unbounded; only workers, tasks and attempts are few. What makes that finite: ages and terms stop where
nothing more depends on them, and a lease or a term that is never drawn twice is kept as one bit, "still the one".
When a walk ends, it has seen every world of that size, not every one up to some number of steps.

*One step is one statement*, or one reply, since a statement on a row sees that row before or after another one,
never between. A duty is three: the fence, the statement and the commit, with its locks in between.

*What needs no step of its own.* A frozen process (SIGSTOP) is one that takes no step while time passes: every state
has such a continuation, also in the midst of a duty. A black hole is that, or a lost reply. A loss that is heard of
late is a beat whose reply was lost: a lease that is gone never comes back, so the news does not grow wrong. For the
same reason a ghost is judged when the reply is read, and not when the server wrote it: what is held by then, or has
its claim on its way, is none. The worker has to do so as well, for its beat is a thread beside the claims.

*Who comes back* after it was declared dead, or is started after a kill, takes the place of the old worker in the
model once no task and no running term is the old one's; in the product it has a new uuid at once.

*Hopes.* A state is stuck if no path without faults leads to the end of all tasks. Without faults: nobody is killed,
no reply is lost, no hand interferes, the server stays up, and no tick passes over a living worker twice without a beat.

*Not modelled*: delays of retries and snoozes (due at once) · priorities, queues, batches, and so a batch that is
accepted in part · the beacon, which only moves the moment of death forward · timeouts, retention and partitions
(duties like any other: the fence is the same, and they are "keeping house") · the unique index on `is_leader` (an
election is one step) · a worker with more than one task in its hands, beside a claim on its way and a ghost · failover
to a standby that lost durable commits · the clock set back · deadlocks and serialization failures (retried whole) ·
what the SQL really says: that is for races/ and for the tests with a database.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from tests.model import holding, invariants, leading, server
from tests.model.explore import Step
from tests.model.holding import Memory
from tests.model.rules import Bounds, Rules
from tests.model.server import ENDED, HELD, Member, Row, Server, Tables, letter, put


class Queue:
    """The system: one server, and workers that are all alike."""

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
        yield from holding.claim(shared, memory, who, bounds, rules)
        yield from holding.claim_reply(shared, memory, who, bounds)
        yield from holding.start(shared, memory, who, rules)
        yield from holding.finish(shared, memory, who, bounds, rules)
        yield from holding.beat(shared, memory, who, bounds, rules)
        yield from holding.give_back(shared, memory, who, bounds, rules)
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
    """kill -9: the memory is gone, and the server ends what was open. Somebody is left to go on."""
    if bounds.kills and sum(shared.up) > 1:
        after = shared.with_duty(who, None)._replace(up=put(shared.up, who, False))
        yield Step(f"{letter(who)} is killed", after, None, fault=True)


def begin_anew(shared: Server, who: int) -> Iterator[Step]:
    """Register as a new worker. It takes the place of the old one once nothing that counts names that any more."""
    tables = [shared.now, *([shared.disk] if shared.disk else [])]
    if shared.now.members[who].alive or shared.duties[who] or any(named(t, who) for t in tables):
        return
    # A term that has run out is as good as none.
    lead = None if shared.now.lead and shared.now.lead.holder == who else shared.now.lead
    after = shared.durable(members=shared.with_member(who, Member(True, 0)), lead=lead)
    yield Step(f"a new worker {letter(who)} begins", after._replace(up=put(shared.up, who, True)), Memory())


def named(tables: Tables, who: int) -> bool:
    """Say whether a task or a term that runs is this worker's."""
    held = any(row.status in HELD and row.holder == who for row in tables.tasks)
    return held or (tables.lead is not None and tables.lead.holder == who and tables.lead.left > 0)


def is_true(shared: Server, memory: Memory, who: int) -> bool:
    """Say whether the bits that stand for leases and terms tell what they should."""
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
