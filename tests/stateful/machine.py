"""Unusual stories: any action after any other, each done to the database and to the reference.

Every step calls both and compares the answers. Then it compares the whole content of the database with that of the
reference, and checks the invariants. Hypothesis reduces a failure to the fewest steps.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import note
from hypothesis.stateful import RuleBasedStateMachine, rule

from orchestrator.task.outcome import DeadLettered, End, Failed, Released
from orchestrator.task.status import ChangedBy
from tests.stateful.actions import DEEDS, STATUSES, Deed
from tests.stateful.comparing import differences
from tests.stateful.database import Database
from tests.stateful.invariants import History
from tests.stateful.manual_update import edited
from tests.stateful.model import Model
from tests.stateful.words import QUEUES, Beaten, Claim, Edit, Leadership, Order, Refused

# The leaves of tasks_done go no further (database.py).
FURTHEST_SECONDS = 86_400


@dataclass
class Process:
    """What a worker's process knows: who it is, and what it holds."""

    worker: int
    held: list[Claim] = field(default_factory=list)


class Machine(RuleBasedStateMachine):
    """Three workers, a producer, and a person with psql."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        self.model = Model()
        self.history = History()
        self.tasks: list[int] = []
        self.claims: list[Claim] = []
        self.reigns: list[Leadership] = []
        self.deleted: set[int] = set()
        self.leases = 1000
        self.registered = 0
        database.reset()
        self.processes = {name: self.started() for name in "abc"}

    @rule(deed=DEEDS)
    def step(self, deed: Deed) -> None:
        """Do it, to the task, claim or reign that is meant; to none, if there is none yet."""
        given = dict(deed.given)
        for name, things in (("task", self.tasks), ("claim", self.claims), ("leadership", self.reigns)):
            if name in given and not things:
                return
            if name in given:
                given[name] = things[-1 - given[name] % len(things)]
        if given != deed.given:
            note(f"    # {Deed(deed.name, given)}")
        getattr(self, deed.name)(**given)

    # What both are asked

    def same(self, ask: Callable[[Any], Any], *, by: ChangedBy = ChangedBy.WORKER) -> Any:
        """Ask the reference and the database: the same answer, or the same refusal; and all is as it should be."""
        told = self.answered(ask)
        self.found = self.database.snapshot()
        wrong = differences(self.model.snapshot(), self.found)
        wrong += self.history.faults(self.found, who=by, deleted=self.deleted)
        assert not wrong, "\n".join(["", *wrong])
        return told

    def answered(self, ask: Callable[[Any], Any]) -> Any:
        expected, actual = answer(ask, self.model), answer(ask, self.database)
        assert expected == actual, f"expected {expected}, and the database says {actual}"
        return actual

    # Producers

    def enqueue(self, order: Order, by: str) -> None:
        self.made(self.same(lambda x: getattr(x, by)(order)))

    def roll_back(self, undone: Order, kept: Order | None) -> None:
        """The whole transaction; or to a savepoint, and then another order."""
        if kept:
            self.made(self.same(lambda x: x.enqueue_after_undone(undone, kept)))
        else:
            self.same(lambda x: x.enqueue_undone(undone))

    # Workers

    def claim(self, name: str, queues: tuple[str, ...], size: int, then: str) -> None:
        """Its answer may be lost: then the worker holds what it does not know of."""
        self.leases += 1
        process, lease = self.processes[name], self.leases
        claims = self.same(lambda x: x.claim(process.worker, queues, size, lease))
        if then == "its answer is lost":
            return
        self.claims += claims
        process.held += claims
        if then == "begin":
            self.same(lambda x: x.begin(claims))

    def begin(self, claim: Claim) -> None:
        self.same(lambda x: x.begin([claim]))

    def finish(self, claim: Claim, end: End) -> None:
        """In time or too late: a lease that is over changes nothing."""
        before = self.found
        written = self.same(lambda x: x.finish([(claim, as_worker(claim, end))], claim.worker))
        if not written:
            late = differences(before, self.found)
            assert not late, "I4: the lease was over\n" + "\n".join(late)
        self.answered(lambda x: x.was_written(claim))
        self.let_go({claim})

    def finish_all(self, name: str, ends: tuple[End, ...]) -> None:
        """All it holds in one batch, of each task the newest lease."""
        process = self.processes[name]
        newest = {claim.task: claim for claim in process.held}
        batch = [(claim, as_worker(claim, ends[n % 3])) for n, claim in enumerate(newest.values())]
        self.same(lambda x: x.finish(batch, process.worker))
        self.let_go(set(process.held))

    def beat(self, name: str, beats: bool, draining: bool) -> None:
        worker = self.processes[name].worker
        self.same(lambda x: x.beat(worker, beats=beats, draining=draining))

    def look(self, names: str) -> None:
        """As workers do at their beats: drop what is lost, give back what they hold without knowing."""
        for name in names:
            self.look_at_leases(self.processes[name])

    def look_at_leases(self, process: Process) -> None:
        seen = self.same(lambda x: x.look(process.worker, process.held))
        process.held = [claim for claim in process.held if (claim.task, claim.lease) not in seen.lost]
        ghosts = [(ghost, Released()) for ghost in seen.ghosts]
        given_back = self.same(lambda x: x.finish(ghosts, process.worker))
        assert {ghost.task for ghost in seen.ghosts} == given_back

    def end(self, name: str, how: str, returns: bool) -> None:
        """Its process ends, and comes back under a new id, holding nothing; what it held is still in its old name."""
        worker = self.processes[name].worker
        if how == "deregisters":
            self.same(lambda x: x.deregister(worker))
        if how == "is erased":
            self.same(lambda x: x.erase_worker(worker), by=ChangedBy.MANUAL)
        if returns:
            self.processes[name] = self.started()

    # The lead

    def elect(self, name: str, does: bool) -> None:
        """And do the duties, if it leads."""
        leadership: Leadership | None = self.same(lambda x: x.elect(self.processes[name].worker))
        if leadership:
            self.reigns.append(leadership)
        if leadership and does:
            self.do_the_duties(leadership)

    def resign(self, leadership: Leadership) -> None:
        self.same(lambda x: x.resign(leadership))

    def do_the_duties(self, leadership: Leadership) -> None:
        """In a term that may be over."""
        self.same(lambda x: x.recover(leadership))
        self.same(lambda x: x.enforce_timeouts(leadership))

    def fall_silent(self, name: str, seconds: int, returns: bool) -> None:
        """A worker does not beat, another leads and takes back what it held; it comes back under a new id."""
        others = sorted({*"abc"} - {name})
        self.pass_time(seconds, others)
        self.elect(others[0], does=True)
        if returns:
            self.processes[name] = self.started()

    def die_of_a_task(self, name: str, times: int) -> None:
        """A task kills its process, and the next one, until it is given up."""
        for _ in range(times):
            self.claim(name, QUEUES, 1, "begin")
            self.fall_silent(name, 31, returns=True)

    # Time

    def time_passes(self, seconds: int, beating: str, sweeps: bool) -> None:
        self.pass_time(seconds, beating)
        if sweeps:
            self.same(lambda x: x.sweep())

    def clock_is_set_back(self, seconds: int) -> None:
        self.pass_time(-seconds, "")

    # Hands

    def update(self, task: int, edit: Edit) -> None:
        self.same(lambda x: x.edit([task], edit), by=ChangedBy.MANUAL)

    def update_to_nonsense(self, task: int) -> None:
        """Every status that a hand may not set on it now: each is refused, and nothing changes."""
        for status in STATUSES:
            old, edit = self.model.tasks.get(task), Edit(status=status)
            if old and answer(partial(edited, old, edit), self.model.now) == "refused: OR001":
                self.answered(partial(update, task=task, edit=edit))
        self.same(lambda x: None)

    def update_run_at(self, task: int, after: int, status: str | None) -> None:
        run_at = self.model.now + after
        self.same(lambda x: x.edit([task], Edit(status=status, run_at=run_at)), by=ChangedBy.MANUAL)

    def update_all(self, queue: str, edit: Edit) -> None:
        """One UPDATE of a whole queue: one task that refuses, and none is changed."""
        self.same(lambda x: x.edit_queue(queue, edit), by=ChangedBy.MANUAL)

    def call(self, task: int, by: str) -> None:
        self.same(lambda x: getattr(x, by)(task), by=ChangedBy.MANUAL)

    def requeue_where(self, status: str, queue: str, at_most: int) -> None:
        self.same(lambda x: x.requeue_where(status, queue, at_most), by=ChangedBy.MANUAL)

    def delete(self, task: int) -> None:
        self.deleted.add(task)
        self.same(lambda x: x.delete(task), by=ChangedBy.MANUAL)

    def set_queue(self, queue: str, state: str) -> None:
        self.same(lambda x: x.set_queue(queue, state), by=ChangedBy.MANUAL)

    def rest(self) -> None:
        """Do nothing."""

    # Steps of steps

    def started(self) -> Process:
        self.registered += 1
        self.same(lambda x: x.register(self.registered))
        return Process(self.registered)

    def made(self, told: int | str) -> None:
        """Remember a task, if one was made or found."""
        if isinstance(told, int) and told not in self.tasks:
            self.tasks.append(told)

    def let_go(self, claims: set[Claim]) -> None:
        for process in self.processes.values():
            process.held = [claim for claim in process.held if claim not in claims]

    def pass_time(self, seconds: int, beating: Iterable[str]) -> None:
        now = max(-FURTHEST_SECONDS, min(FURTHEST_SECONDS, self.model.now + seconds))
        self.answered(lambda x: x.set_clock(now))
        for name in beating:
            self.answered(partial(beat, worker=self.processes[name].worker))
        self.same(lambda x: None)


def answer(ask: Callable[[Any], Any], whom: object) -> object:
    try:
        return ask(whom)
    except Refused as refused:
        return f"refused: {refused}"


def update(whom: Model | Database, *, task: int, edit: Edit) -> None:
    whom.edit([task], edit)


def beat(whom: Model | Database, *, worker: int) -> Beaten:
    return whom.beat(worker, beats=True, draining=False)


def as_worker(claim: Claim, end: End) -> End:
    """What a worker makes of a failure when no attempt is left (execute/attempt.py)."""
    if isinstance(end, Failed) and claim.attempt >= claim.max_attempts:
        return DeadLettered(end.fault, end.kind)
    return end
