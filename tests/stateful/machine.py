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
from tests.stateful.actions import ACTIONS, STATUSES, Action
from tests.stateful.comparing import differences
from tests.stateful.database import Database
from tests.stateful.interface import QUEUES, Beaten, Claim, Edit, Leadership, Order, Refused
from tests.stateful.invariants import History
from tests.stateful.manual_update import edited
from tests.stateful.model import Model

# There are leaves of tasks_done for this time only (database.py).
FURTHEST_SECONDS = 86_400


@dataclass
class Process:
    """What a worker's process knows: its id, and the tasks that it holds."""

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
        self.leaderships: list[Leadership] = []
        self.deleted: set[int] = set()
        self.leases = 1000
        self.registered = 0
        database.reset()
        self.processes = {name: self.started() for name in "abc"}

    @rule(action=ACTIONS)
    def step(self, action: Action) -> None:
        """Call the method, with the chosen task, claim or leadership. If there is none yet, do nothing."""
        given = dict(action.given)
        for name, things in (("task", self.tasks), ("claim", self.claims), ("leadership", self.leaderships)):
            if name in given and not things:
                return
            if name in given:
                given[name] = things[-1 - given[name] % len(things)]
        if given != action.given:
            note(f"    # {Action(action.name, given)}")
        getattr(self, action.name)(**given)

    # The comparison

    def same(self, ask: Callable[[Any], Any], *, by: ChangedBy = ChangedBy.WORKER) -> Any:
        """Call the reference and the database. Check that both give the same answer or refusal, and check all rows."""
        told = self.answered(ask)
        self.found = self.database.snapshot()
        wrong = differences(self.model.snapshot(), self.found)
        wrong += self.history.faults(self.found, who=by, deleted=self.deleted)
        assert not wrong, "\n".join(["", *wrong])
        return told

    def answered(self, ask: Callable[[Any], Any]) -> Any:
        expected, actual = answer(ask, self.model), answer(ask, self.database)
        assert expected == actual, f"expected {expected}, and the database returns {actual}"
        return actual

    # Producers

    def enqueue(self, order: Order, by: str) -> None:
        self.made(self.same(lambda x: getattr(x, by)(order)))

    def roll_back(self, undone: Order, kept: Order | None) -> None:
        """Roll back the whole transaction, or roll back to a savepoint and enqueue another order."""
        if kept:
            self.made(self.same(lambda x: x.enqueue_after_undone(undone, kept)))
        else:
            self.same(lambda x: x.enqueue_undone(undone))

    # Workers

    def claim(self, name: str, queues: tuple[str, ...], size: int, then: str) -> None:
        """Claim tasks. If the answer is lost, the worker holds tasks that it does not know of."""
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
        """Finish in time or too late: under a void lease nothing changes."""
        before = self.found
        written = self.same(lambda x: x.finish([(claim, as_worker(claim, end))], claim.worker))
        if not written:
            late = differences(before, self.found)
            assert not late, "I4: the lease was void\n" + "\n".join(late)
        self.answered(lambda x: x.was_written(claim))
        self.let_go({claim})

    def finish_all(self, name: str, ends: tuple[End, ...]) -> None:
        """Finish all held tasks in one batch, each under its newest lease."""
        process = self.processes[name]
        newest = {claim.task: claim for claim in process.held}
        batch = [(claim, as_worker(claim, ends[n % 3])) for n, claim in enumerate(newest.values())]
        self.same(lambda x: x.finish(batch, process.worker))
        self.let_go(set(process.held))

    def beat(self, name: str, beats: bool, draining: bool) -> None:
        worker = self.processes[name].worker
        self.same(lambda x: x.beat(worker, beats=beats, draining=draining))

    def look(self, names: str) -> None:
        """Do what workers do at their beats: drop lost tasks, and release tasks that they do not know of."""
        for name in names:
            self.look_at_leases(self.processes[name])

    def look_at_leases(self, process: Process) -> None:
        seen = self.same(lambda x: x.look(process.worker, process.held))
        process.held = [claim for claim in process.held if (claim.task, claim.lease) not in seen.lost]
        ghosts = [(ghost, Released()) for ghost in seen.ghosts]
        given_back = self.same(lambda x: x.finish(ghosts, process.worker))
        assert {ghost.task for ghost in seen.ghosts} == given_back

    def end(self, name: str, how: str, returns: bool) -> None:
        """End its process. It may start again under a new id, without tasks. Its tasks still have the old id."""
        worker = self.processes[name].worker
        if how == "deregisters":
            self.same(lambda x: x.deregister(worker))
        if how == "is erased":
            self.same(lambda x: x.erase_worker(worker), by=ChangedBy.MANUAL)
        if returns:
            self.processes[name] = self.started()

    # The leader

    def elect(self, name: str, does: bool) -> None:
        """Stand for election, and do the duties if it wins."""
        leadership: Leadership | None = self.same(lambda x: x.elect(self.processes[name].worker))
        if leadership:
            self.leaderships.append(leadership)
        if leadership and does:
            self.do_the_duties(leadership)

    def resign(self, leadership: Leadership) -> None:
        self.same(lambda x: x.resign(leadership))

    def do_the_duties(self, leadership: Leadership) -> None:
        """Do the duties, in a term that may have ended."""
        self.same(lambda x: x.recover(leadership))
        self.same(lambda x: x.enforce_timeouts(leadership))

    def stop_beating(self, name: str, seconds: int, returns: bool) -> None:
        """A worker does not beat. Another worker leads, and takes back its tasks. It starts again under a new id."""
        others = sorted({*"abc"} - {name})
        self.pass_time(seconds, others)
        self.elect(others[0], does=True)
        if returns:
            self.processes[name] = self.started()

    def be_killed_by_a_task(self, name: str, times: int) -> None:
        """A task kills its process, and the next ones; it may become a dead letter."""
        for _ in range(times):
            self.claim(name, QUEUES, 1, "begin")
            self.stop_beating(name, 31, returns=True)

    # Time

    def time_passes(self, seconds: int, beating: str, sweeps: bool) -> None:
        self.pass_time(seconds, beating)
        if sweeps:
            self.same(lambda x: x.sweep())

    def clock_is_set_back(self, seconds: int) -> None:
        self.pass_time(-seconds, "")

    # Manual changes

    def update(self, task: int, edit: Edit) -> None:
        self.same(lambda x: x.edit([task], edit), by=ChangedBy.MANUAL)

    def update_to_nonsense(self, task: int) -> None:
        """Set every status that a manual change may not set now: each is refused, and nothing changes."""
        for status in STATUSES:
            old, edit = self.model.tasks.get(task), Edit(status=status)
            if old and answer(partial(edited, old, edit), self.model.now) == "refused: OR001":
                self.answered(partial(update, task=task, edit=edit))
        self.same(lambda x: None)

    def update_run_at(self, task: int, after: int, status: str | None) -> None:
        run_at = self.model.now + after
        self.same(lambda x: x.edit([task], Edit(status=status, run_at=run_at)), by=ChangedBy.MANUAL)

    def update_all(self, queue: str, edit: Edit) -> None:
        """Change a whole queue in one UPDATE: if one task refuses, none changes."""
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

    # Parts of steps

    def started(self) -> Process:
        self.registered += 1
        self.same(lambda x: x.register(self.registered))
        return Process(self.registered)

    def made(self, told: int | str) -> None:
        """Remember the task that was created or found, if any."""
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


def answer(ask: Callable[[Any], Any], side: object) -> object:
    try:
        return ask(side)
    except Refused as refused:
        return f"refused: {refused}"


def update(side: Model | Database, *, task: int, edit: Edit) -> None:
    side.edit([task], edit)


def beat(side: Model | Database, *, worker: int) -> Beaten:
    return side.beat(worker, beats=True, draining=False)


def as_worker(claim: Claim, end: End) -> End:
    """Return the outcome that a worker writes: a failure in the last attempt is a dead letter (execute/attempt.py)."""
    if isinstance(end, Failed) and claim.attempt >= claim.max_attempts:
        return DeadLettered(end.fault, end.kind)
    return end
