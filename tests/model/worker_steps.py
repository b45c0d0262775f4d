"""What a worker does with tasks: claim, start, finish, and correct its memory from the reply to its beat.

    claim ──► on its way ──► held ──► started ──► outcome sent ──► forgotten
                  │                                    │
                  └─ reply lost: a ghost               └─ reply lost: kept, and sent again

Each function yields the steps of one worker, given the server and the worker's memory.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.model import invariants
from tests.model.explore import Step
from tests.model.rules import Bounds, Rules
from tests.model.server import CLAIMED, DEAD, DONE, HELD, RUNNING, WAITING, Lead, Member, Row, Server, letter

COMPLETED, RETRY, SNOOZED = "completed", "to be retried", "snoozed"


class Hold(NamedTuple):
    """A task that a worker holds. `sent`: the outcome that may have arrived.

    `live`: the row still has the lease of this claim. A random lease is not drawn twice, so to compare leases is to
    read `live`. Where a variant compares something else, only the checker reads `live`. It alone reads `accepted`.
    """

    task: int
    token: int
    live: bool = True
    started: bool = False
    sent: str | None = None
    accepted: bool = False

    def stale(self) -> "Hold":
        """Return the hold after its lease was voided. Which outcome was sent no longer matters."""
        return self._replace(live=False, sent=self.sent and COMPLETED)


class Memory(NamedTuple):
    """What a process knows. `claim`: it is executed, and its reply is on the way. `ghost`: a task to release.

    `term`: None without a term; otherwise whether the worker's term is the latest that was drawn.
    """

    term: bool | None = None
    claim: Hold | None = None
    hold: Hold | None = None
    ghost: Hold | None = None

    def without_lease(self, tasks: tuple[int, ...]) -> "Memory":
        """Return the memory after the leases of these rows were voided."""

        def after(held: Hold | None) -> Hold | None:
            return held.stale() if held and held.task in tasks and held.live else held

        return self._replace(claim=after(self.claim), hold=after(self.hold), ghost=after(self.ghost))

    def knows(self, task: int) -> bool:
        """Return whether this worker, or a claim on its way to it, has the current lease of a task."""
        return any(held is not None and held.task == task and held.live for held in (self.claim, self.hold))


def claim(server: Server, memory: Memory, who: int, bounds: Bounds, rules: Rules) -> Iterator[Step]:
    """Claim one task; commits asynchronously. A worker that was declared dead gets nothing."""
    if memory.claim or memory.hold or not server.now.members[who].alive:
        return
    if not rules.lease_is_random and server.now.sequence == bounds.sequence_max:
        return
    for task, row in enumerate(server.now.tasks):
        if row.status != WAITING:
            continue
        token, sequence = 0, server.now.sequence
        if not rules.lease_is_random:
            token = sequence = sequence + 1
        if rules.outcome_names == "attempt":
            token = row.attempt + 1
        taken = row._replace(status=CLAIMED, attempt=row.attempt + 1, holder=who, token=token)
        for after in server.lazy(tasks=server.with_task(task, taken), sequence=sequence):
            yield Step(
                f"{letter(who)} claims task {task}" + (f" as number {token}" if token else ""),
                after,
                memory._replace(claim=Hold(task, token)),
            )


def claim_reply(server: Server, memory: Memory, who: int, bounds: Bounds) -> Iterator[Step]:
    """The reply to a claim arrives, or it is lost. A crash in between makes no difference."""
    if memory.claim:
        yield Step(
            f"{letter(who)} reads the reply to its claim",
            server,
            memory._replace(claim=None, hold=memory.claim),
        )
        if bounds.losses_of_replies:
            yield Step(
                f"the reply to the claim of {letter(who)} is lost",
                server,
                memory._replace(claim=None),
                fault=True,
            )


def start(server: Server, memory: Memory, who: int, rules: Rules) -> Iterator[Step]:
    """Mark the held task as running; commits asynchronously. A task whose mark is refused does not start."""
    hold = memory.hold
    if not hold or hold.started or hold.sent or server.task_is_locked(hold.task):
        return
    row = server.now.tasks[hold.task]
    if hold.live if rules.outcome_names == "id" else names_it(row, hold, rules):
        wrong = None if hold.live else invariants.ONE_LEASE
        for after in server.lazy(tasks=server.with_task(hold.task, row._replace(status=RUNNING))):
            yield Step(
                f"{letter(who)} starts task {hold.task}",
                after,
                memory._replace(hold=hold._replace(started=True)),
                broken=wrong,
            )
    else:
        yield Step(f"{letter(who)} may not start task {hold.task}: stale", server, memory._replace(hold=None))


def finish(server: Server, memory: Memory, who: int, bounds: Bounds, rules: Rules) -> Iterator[Step]:
    """Send an outcome, durably. An outcome whose reply was lost is sent again unchanged."""
    hold = memory.hold
    if not hold or server.task_is_locked(hold.task):
        return
    row = server.now.tasks[hold.task]
    name = f"{letter(who)} sends its outcome of task {hold.task}" + (" again" if hold.sent else "")
    if not names_it(row, hold, rules):
        # A loss of this reply needs no step of its own: an outcome that was refused is refused again.
        name += ": known already" if hold.accepted else ": refused as stale"
        yield Step(name, server, memory._replace(hold=None))
        return
    wrong = wrongly_accepted(hold)
    for end in (hold.sent,) if hold.sent else (COMPLETED, RETRY, SNOOZED):
        after = server.durable(tasks=server.with_task(hold.task, ended(row, end, bounds, rules)))
        yield Step(f"{name} ({end}): accepted", after, memory._replace(hold=None), broken=wrong)
        if bounds.losses_of_replies:
            kept = hold._replace(started=True, sent=end, accepted=True).stale()
            lost = f"{name} ({end}): accepted, and the reply is lost"
            yield Step(lost, after, memory._replace(hold=kept), fault=True)


def names_it(row: Row, hold: Hold, rules: Rules) -> bool:
    """Return whether the write of an outcome finds its row."""
    if rules.outcome_names == "id":
        return row.status == WAITING or row.status in HELD
    if rules.outcome_names == "attempt" or not rules.lease_is_random:
        return row.status in HELD and row.token == hold.token
    return hold.live


def wrongly_accepted(hold: Hold) -> str | None:
    if hold.accepted:
        return invariants.ONE_OUTCOME
    return None if hold.live else invariants.ONE_LEASE


def ended(row: Row, end: str, bounds: Bounds, rules: Rules) -> Row:
    """Return the row after an outcome. A snooze, like a release, gives the attempt back."""
    if end == COMPLETED:
        return Row(DONE)
    if end == SNOOZED:
        return Row(WAITING, row.attempt - 1, row.losses)
    if row.attempt >= bounds.attempts_max and rules.attempts_are_limited:
        return Row(DEAD)
    return Row(WAITING, row.attempt, row.losses)


def beat(server: Server, memory: Memory, who: int, bounds: Bounds, rules: Rules) -> Iterator[Step]:
    """Show that the worker is alive, renew its term, and learn of lost tasks and ghosts. Commits asynchronously."""
    if server.member_is_locked(who):
        return
    if not server.now.members[who].alive:
        yield Step(f"{letter(who)} beats and learns that it was declared dead", server, None)
        return
    members = server.with_member(who, Member(True, 0))
    for after in server.lazy(members=members, lead=renewed(server, memory, who, bounds, rules)):
        after_reply, what = heard(server, memory, who, rules)
        yield Step(f"{letter(who)} beats{what}", after, after_reply)
        if bounds.losses_of_replies and after_reply != memory:
            yield Step(f"{letter(who)} beats, and the reply is lost", after, memory, fault=True)


def renewed(server: Server, memory: Memory, who: int, bounds: Bounds, rules: Rules) -> object:
    """Return the leader's row after a beat."""
    lead = server.now.lead
    if memory.term is None:
        return lead
    if not rules.renewal_looks:
        # This variant ignores the unique index on is_leader: the last writer leads.
        return Lead(who, bounds.term, memory.term)
    mine = lead is not None and (lead.holder, lead.latest) == (who, memory.term)
    return lead._replace(left=bounds.term) if mine and lead and lead.left else lead


def heard(server: Server, memory: Memory, who: int, rules: Rules) -> tuple[Memory, str]:
    """Return what a worker knows after the reply, and the news in words."""
    hold, ghost, what = memory.hold, memory.ghost, ""
    if hold and not hold.sent and not names_it(server.now.tasks[hold.task], hold, rules):
        what = f" and learns that it lost task {hold.task}"
        hold = None
    if rules.reconciles and not ghost:
        known = memory if rules.claim_on_its_way_is_held else memory._replace(claim=None)
        for task, row in enumerate(server.now.tasks):
            if row.status in HELD and row.holder == who and not known.knows(task):
                ghost, what = Hold(task, row.token), what + f" and finds the ghost of task {task}"
                break
    return memory._replace(hold=hold, ghost=ghost), what


def give_back(server: Server, memory: Memory, who: int, bounds: Bounds, rules: Rules) -> Iterator[Step]:
    """Release a ghost. It is an outcome like any other: under the lease, durable, without a charge."""
    ghost = memory.ghost
    if not ghost or server.task_is_locked(ghost.task):
        return
    row = server.now.tasks[ghost.task]
    if not names_it(row, ghost, rules):
        yield Step(
            f"{letter(who)} gives back the ghost of task {ghost.task}: gone already",
            server,
            memory._replace(ghost=None),
        )
        return
    wrong = invariants.KEPT if memory.knows(ghost.task) else wrongly_accepted(ghost)
    after = server.durable(tasks=server.with_task(ghost.task, ended(row, SNOOZED, bounds, rules)))
    name = f"{letter(who)} gives back the ghost of task {ghost.task}"
    yield Step(name, after, memory._replace(ghost=None), broken=wrong)
    if bounds.losses_of_replies:
        yield Step(f"{name}, and the reply is lost", after, memory._replace(ghost=ghost.stale()), fault=True)
