"""What a worker does to lead, and as the leader: be elected, open fenced duties, resign.

    vacant ──elect──► leads ──renewed by beats──► leads
                        │  │
                        │  └─ time passes ──► run out ──elect──► another leads
                        └─ resigns ──► vacant

    duty:  fence (own row FOR KEY SHARE) ──► statement (its rows locked) ──► commit

Taking over and resigning lock the leader's row FOR UPDATE, so they wait for an open duty. A beat does not wait. An
election is one step: no other transaction can touch the row between its lock and its commit. A wait is a step that
changes nothing; it exists so that the walk counts it.
"""

from collections.abc import Iterator

from tests.model import invariants
from tests.model.explore import Step
from tests.model.rules import Bounds, Rules
from tests.model.server import (
    DEAD,
    HELD,
    RUNNING,
    WAITING,
    Duty,
    Lead,
    Member,
    Row,
    Server,
    Tables,
    letter,
    put,
)
from tests.model.worker_steps import Memory


def elect(server: Server, memory: Memory, who: int, bounds: Bounds, rules: Rules) -> Iterator[Step]:
    """Become the leader, if there is none or the leader's term has run out."""
    if memory.term is not None or not server.now.members[who].alive:
        return
    lead = server.now.lead
    ahead = 1 if rules.clients_clock_decides == "terms" else 0
    if lead and lead.left > ahead:
        return
    if (
        server.lead_is_shared()
        or server.member_is_locked(who)
        or (lead and server.member_is_locked(lead.holder))
    ):
        yield Step(f"{letter(who)} would take over, and waits for a duty", server, memory)
        return
    wrong = invariants.PATIENCE if lead and lead.left else None
    if server.now.behind:
        wrong = invariants.RISING
    name = f"{letter(who)} takes over from {letter(lead.holder)}" if lead else f"{letter(who)} is elected"
    for after in drawn(server, Lead(who, bounds.term), rules):
        yield Step(name, after, memory._replace(term=True), others=("term",), broken=wrong)
        if bounds.losses_of_replies:
            yield Step(f"{name}, and the reply is lost", after, memory, others=("term",), fault=True)


def drawn(server: Server, lead: Lead, rules: Rules) -> Iterator[Server]:
    """Yield the server after an election. The sequence of terms reaches the disk together with the commit."""
    led = server._replace(duties=tuple(duty and duty._replace(latest=False) for duty in server.duties))
    yield led.durable(lead=lead)
    if not rules.election_is_durable:
        before = server.disk or server.now
        before = before._replace(lead=before.lead and before.lead._replace(latest=False))
        yield led._replace(now=led.now._replace(lead=lead), disk=before._replace(behind=before.behind + 1))


def resign(server: Server, memory: Memory, who: int, rules: Rules) -> Iterator[Step]:
    """Give up the term, durably."""
    if memory.term is None:
        return
    lead = server.now.lead
    after_reply = memory._replace(term=None)
    mine = lead is not None and (lead.holder, lead.latest) == (who, memory.term)
    if lead and not mine and rules.resigning == "whoever leads":
        name = f"{letter(who)} resigns, and with it {letter(lead.holder)}"
        yield Step(name, server.durable(lead=None), after_reply, broken=invariants.OWN_TERM)
    elif not mine:
        yield Step(f"{letter(who)} resigns, and did not lead any more", server, after_reply)
    elif rules.resigning == "fenced" and (server.lead_is_shared() or server.member_is_locked(who)):
        yield Step(f"{letter(who)} would resign, and waits for its own duty", server, memory)
    else:
        yield Step(f"{letter(who)} resigns", server.durable(lead=None), after_reply)


def fence(server: Server, memory: Memory, who: int, bounds: Bounds, rules: Rules) -> Iterator[Step]:
    """Open a duty: check the worker's own term, and lock it."""
    if memory.term is None or server.duties[who] is not None:
        return
    lead = server.now.lead
    leads = lead is not None and (lead.holder, lead.latest) == (who, memory.term) and lead.left > 0
    if not leads and rules.fence != "none":
        yield Step(
            f"{letter(who)} opens a duty, finds its term over and steps down",
            server,
            memory._replace(term=None),
        )
        return
    duty = Duty(locks=rules.fence == "locked", latest=memory.term)
    yield Step(f"{letter(who)} opens a duty", server.with_duty(who, duty), memory)
    if not rules.recovery_repeats:
        for target in gone(server.now, bounds, rules):
            for task, row in enumerate(server.now.tasks):
                if row.status in HELD and row.holder == target:
                    noted = duty._replace(target=target, picked=(task, row.status == RUNNING))
                    name = f"{letter(who)} opens a duty and notes that task {task} of {letter(target)} is an orphan"
                    yield Step(name, server.with_duty(who, noted), memory)


def statement(
    server: Server, memory: Memory | None, who: int, bounds: Bounds, rules: Rules
) -> Iterator[Step]:
    """Run the statement of a duty. It skips rows that other transactions have locked."""
    duty = server.duties[who]
    if duty is None or duty.written:
        return
    written = duty._replace(written=True)
    if duty.picked is not None:
        if not server.task_is_locked(duty.picked[0]):
            name = f"{letter(who)} takes back the task that it noted, without a second check"
            yield Step(name, server.with_duty(who, written), memory)
        return
    if bounds.housekeeping:
        yield Step(f"{letter(who)} does housekeeping", server.with_duty(who, written), memory)
    if rules.recovery_repeats:
        for target in gone(server.now, bounds, rules):
            if not server.member_is_locked(target):
                after = server.with_duty(who, written._replace(target=target))
                yield Step(
                    f"{letter(who)} declares {letter(target)} dead and takes its tasks back", after, memory
                )


def gone(tables: Tables, bounds: Bounds, rules: Rules) -> list[int]:
    """Return the workers whose last beat is too old."""
    ahead = 1 if rules.clients_clock_decides == "deaths" else 0
    return [who for who, m in enumerate(tables.members) if m.alive and m.age + ahead >= bounds.dead_after]


def commit(server: Server, memory: Memory | None, who: int, bounds: Bounds, rules: Rules) -> Iterator[Step]:
    """Commit a duty, durably."""
    duty = server.duties[who]
    if duty is None or not duty.written:
        return
    after = server.with_duty(who, None)
    wrong = None if duty.latest else invariants.LATEST
    if duty.target is None:
        yield Step(f"{letter(who)} commits", after.durable(), memory, broken=wrong)
        return
    member = server.now.members[duty.target]
    if member.alive and member.age < bounds.dead_after:
        wrong = wrong or invariants.PATIENCE
    tasks = server.now.tasks
    for task, row in enumerate(tasks):
        if duty.picked[0] == task if duty.picked else row.status in HELD and row.holder == duty.target:
            charged = rules.unstarted_are_charged or (
                duty.picked[1] if duty.picked else row.status == RUNNING
            )
            wrong = wrong or wrongly_taken(row, duty, charged=charged)
            tasks = put(tasks, task, recovered(row, bounds, charged=charged))
    # The age of a dead worker no longer matters.
    members = after.with_member(duty.target, Member(False, 0))
    name = f"{letter(who)} commits: {letter(duty.target)} is dead"
    lost = tuple(t for t, (row, old) in enumerate(zip(tasks, server.now.tasks, strict=True)) if row != old)
    if lost:
        name += ", its tasks are back"
    others = ("lease", lost) if lost else None
    after_reply = memory and memory.without_lease(lost)
    yield Step(name, after.durable(tasks=tasks, members=members), after_reply, others=others, broken=wrong)


def wrongly_taken(row: Row, duty: Duty, *, charged: bool) -> str | None:
    if row.status not in HELD or row.holder != duty.target:
        return invariants.ORPHANS
    return invariants.FAIR if charged and row.status != RUNNING else None


def recovered(row: Row, bounds: Bounds, *, charged: bool) -> Row:
    """Return an orphan after recovery: it gets its attempt back, or a loss is counted."""
    if not charged:
        return Row(WAITING, row.attempt - 1, row.losses)
    if row.attempt >= bounds.attempts_max or row.losses + 1 >= bounds.losses_max:
        return Row(DEAD)
    return Row(WAITING, row.attempt, row.losses + 1)
