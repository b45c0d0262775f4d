"""Stories that nobody would think of: any deed after any other, each done to the database and to the reference.

Every step asks both the same question and compares the answers; then all that the database holds is compared with all
that the reference does, and the invariants are read off it. What fails is cut down by hypothesis to the fewest steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, multiple, rule

from orchestrator.task.outcome import (
    Buried,
    Cancelled,
    Completed,
    End,
    Failed,
    Fault,
    PutBack,
    Released,
    Snoozed,
)
from orchestrator.task.status import Who
from tests.stateful.ground import Ground
from tests.stateful.invariants import History
from tests.stateful.model import Model
from tests.stateful.words import QUEUES, Beaten, Claim, Edit, Order, Refused, Reign, Snapshot

FAULT = Fault("ValueError", "it failed")
COMPLETED: End = Completed('"done"')
FAILED = "failed"
FURTHEST_SECONDS = 86_400

ORDERS = st.builds(
    Order,
    queue=st.sampled_from(QUEUES),
    key=st.sampled_from([None, None, "k", "l"]),
    window=st.sampled_from([60, 3600]),
    delay=st.sampled_from([0, 0, 0, 30, 3600]),
    priority=st.sampled_from([50, 25, 75]),
    max_attempts=st.sampled_from([2, 1, 4]),
    timeout=st.sampled_from([60, 0]),
)
ENDS = st.sampled_from(
    [
        COMPLETED,
        Failed(FAULT, "failed", 60.0),
        Failed(FAULT, "timeout", 0.0),
        Buried(FAULT, "discarded"),
        Cancelled("not needed"),
        Snoozed(30.0),
        Snoozed(0.0),
        PutBack(Fault("UnknownType", "who?"), 10.0, 1),
        Released(),
    ]
)
NAMES = st.sampled_from("abc")
SERVED = st.sampled_from([("default",), ("bulk",), ("default", "bulk"), ("bulk", "default")])
# Whole numbers on both sides of every limit: term 10, timeout's margin 15, death 30, timeout 60, key and backoff 60.
PASSING = st.sampled_from([1, 5, 10, 15, 30, 31, 60, 76, 300, 3600])
STATUSES = st.sampled_from(
    ["pending", "cancelled", "scheduled", "blocked", "claimed", "running", "completed", "dead_letter", "done"]
)


@dataclass
class Process:
    """What a worker's process knows: who it is, and what it holds."""

    worker: int
    held: list[Claim] = field(default_factory=list)


class Machine(RuleBasedStateMachine):
    """Three workers, a producer, and a person with psql."""

    tasks = Bundle("tasks")
    claims = Bundle("claims")
    reigns = Bundle("reigns")
    steps = 0

    def __init__(self, ground: Ground) -> None:
        super().__init__()
        self.ground = ground
        self.model = Model()
        self.history = History()
        self.deleted: set[int] = set()
        self.leases = 1000
        self.registered = 0
        ground.reset()
        self.processes = {name: self.started() for name in "abc"}

    # What both are asked

    def same(self, ask: Callable[[Any], Any], *, by: Who = Who.WORKER) -> Any:
        """Ask the reference and the database: the same answer, or the same refusal; and everything is as it should be."""
        told = self.answered(ask)
        found = self.ground.snapshot()
        wrong = differences(self.model.snapshot(), found)
        wrong += self.history.faults(found, who=by, deleted=self.deleted)
        assert not wrong, "\n".join(["", *wrong])
        Machine.steps += 1
        return told

    def answered(self, ask: Callable[[Any], Any]) -> Any:
        expected, actual = answer(ask, self.model), answer(ask, self.ground)
        assert expected == actual, f"expected {expected}, and the database says {actual}"
        return actual

    # Producers

    @rule(target=tasks, order=ORDERS)
    def enqueue(self, order: Order) -> MultipleResults[int]:
        return made(self.same(lambda x: x.enqueue(order)))

    @rule(target=tasks, order=ORDERS)
    def insert(self, order: Order) -> MultipleResults[int]:
        return made(self.same(lambda x: x.insert(order)))

    @rule(order=ORDERS)
    def enqueue_and_roll_back(self, order: Order) -> None:
        self.same(lambda x: x.enqueue_undone(order))

    @rule(target=tasks, undone=ORDERS, kept=ORDERS)
    def enqueue_after_a_savepoint(self, undone: Order, kept: Order) -> MultipleResults[int]:
        return made(self.same(lambda x: x.enqueue_after_undone(undone, kept)))

    # Workers

    @rule(target=claims, name=NAMES, queues=SERVED, batch_size=st.integers(1, 3))
    def claim(self, name: str, queues: tuple[str, ...], batch_size: int) -> MultipleResults[Claim]:
        return multiple(*self.claimed(name, queues, batch_size))

    @rule(target=claims, name=NAMES, queues=SERVED, batch_size=st.integers(1, 3))
    def claim_and_begin(self, name: str, queues: tuple[str, ...], batch_size: int) -> MultipleResults[Claim]:
        claims = self.claimed(name, queues, batch_size)
        self.same(lambda x: x.begin(claims))
        return multiple(*claims)

    @rule(name=NAMES, queues=SERVED)
    def claim_whose_answer_is_lost(self, name: str, queues: tuple[str, ...]) -> None:
        self.claimed(name, queues, 2, is_told=False)

    @rule(claim=claims)
    def begin(self, claim: Claim) -> None:
        self.same(lambda x: x.begin([claim]))

    @rule(claim=claims, end=ENDS)
    def finish(self, claim: Claim, end: End) -> None:
        """In time or too late: a lease that is over changes nothing."""
        before = self.ground.snapshot()
        written = self.same(lambda x: x.finish([(claim, as_worker(claim, end))], claim.worker))
        if not written:
            late = differences(before, self.ground.snapshot())
            assert not late, "I4: the lease was over\n" + "\n".join(late)
        self.let_go({claim})

    @rule(name=NAMES, ends=st.lists(ENDS, min_size=3, max_size=3))
    def finish_all(self, name: str, ends: list[End]) -> None:
        """All it holds in one batch, of each task the newest lease."""
        process = self.processes[name]
        newest = {claim.task: claim for claim in process.held}
        batch = [(claim, as_worker(claim, ends[n % 3])) for n, claim in enumerate(newest.values())]
        self.same(lambda x: x.finish(batch, process.worker))
        self.let_go(set(process.held))

    @rule(claim=claims)
    def ask_whether_it_was_written(self, claim: Claim) -> None:
        self.same(lambda x: x.was_written(claim))

    @rule()
    def sweep(self) -> None:
        self.same(lambda x: x.sweep())

    @rule(name=NAMES, beats=st.booleans(), draining=st.sampled_from([False, False, False, True]))
    def beat(self, name: str, beats: bool, draining: bool) -> None:
        worker = self.processes[name].worker
        self.same(lambda x: x.beat(worker, beats=beats, draining=draining))

    @rule(name=NAMES)
    def look_for_lost_and_ghosts(self, name: str) -> None:
        """As a worker does at its beat: drop what is lost, give back what it holds without knowing."""
        process = self.processes[name]
        seen = self.same(lambda x: x.look(process.worker, process.held))
        process.held = [claim for claim in process.held if (claim.task, claim.lease) not in seen.lost]
        given_back = self.same(
            lambda x: x.finish([(ghost, Released()) for ghost in seen.ghosts], process.worker)
        )
        assert {ghost.task for ghost in seen.ghosts} == given_back

    @rule(name=NAMES)
    def deregister(self, name: str) -> None:
        self.same(lambda x: x.deregister(self.processes[name].worker))

    @rule(name=NAMES)
    def start_anew(self, name: str) -> None:
        """Under a new id, holding nothing, whatever has become of the old one."""
        self.processes[name] = self.started()

    # The lead

    @rule(target=reigns, name=NAMES)
    def elect(self, name: str) -> MultipleResults[Reign]:
        return reigning(self.same(lambda x: x.elect(self.processes[name].worker)))

    @rule(target=reigns, name=NAMES)
    def elect_and_do_the_duties(self, name: str) -> MultipleResults[Reign]:
        reign = self.same(lambda x: x.elect(self.processes[name].worker))
        if reign:
            self.same(lambda x: x.recover(reign))
            self.same(lambda x: x.enforce_timeouts(reign))
        return reigning(reign)

    @rule(reign=reigns)
    def resign(self, reign: Reign) -> None:
        self.same(lambda x: x.resign(reign))

    @rule(reign=reigns)
    def recover(self, reign: Reign) -> None:
        self.same(lambda x: x.recover(reign))

    @rule(reign=reigns)
    def enforce_timeouts(self, reign: Reign) -> None:
        self.same(lambda x: x.enforce_timeouts(reign))

    # Time

    @rule(seconds=PASSING, silent=st.sampled_from(["", "a", "b", "c", "abc"]))
    def time_passes(self, seconds: int, silent: str) -> None:
        """And whoever is not silent beats."""
        self.clock(seconds)
        for name in sorted({*"abc"} - {*silent}):
            self.answered(partial(beat, worker=self.processes[name].worker))
        self.same(lambda x: None)

    @rule(seconds=PASSING)
    def clock_is_set_back(self, seconds: int) -> None:
        self.clock(-seconds)
        self.same(lambda x: None)

    # Hands

    @rule(task=tasks, status=STATUSES)
    def set_status(self, task: int, status: str) -> None:
        self.same(lambda x: x.edit([task], Edit(status=status)), by=Who.HAND)

    @rule(task=tasks, priority=st.sampled_from([100, 0, 50, 101, -1]))
    def set_priority(self, task: int, priority: int) -> None:
        self.same(lambda x: x.edit([task], Edit(priority=priority)), by=Who.HAND)

    @rule(task=tasks, after=st.sampled_from([-60, 0, 60]), status=st.sampled_from([None, "pending", "cancelled"]))
    def set_run_at(self, task: int, after: int, status: str | None) -> None:
        run_at = self.model.now + after
        self.same(lambda x: x.edit([task], Edit(status=status, run_at=run_at)), by=Who.HAND)

    @rule(queue=st.sampled_from(QUEUES), status=STATUSES)
    def set_status_of_all(self, queue: str, status: str) -> None:
        """One UPDATE of a whole queue: one task that refuses, and none is changed."""
        self.same(lambda x: x.edit_queue(queue, Edit(status=status)), by=Who.HAND)

    @rule(task=tasks)
    def cancel(self, task: int) -> None:
        self.same(lambda x: x.cancel(task), by=Who.HAND)

    @rule(task=tasks)
    def requeue(self, task: int) -> None:
        self.same(lambda x: x.requeue(task), by=Who.HAND)

    @rule(
        status=st.sampled_from(["dead_letter", "completed", "cancelled"]),
        queue=st.sampled_from(QUEUES),
        at_most=st.integers(1, 2),
    )
    def requeue_where(self, status: str, queue: str, at_most: int) -> None:
        self.same(lambda x: x.requeue_where(status, queue, at_most), by=Who.HAND)

    @rule(task=tasks)
    def delete(self, task: int) -> None:
        self.deleted.add(task)
        self.same(lambda x: x.delete(task), by=Who.HAND)

    @rule(queue=st.sampled_from(QUEUES), state=st.sampled_from(["active", "active", "paused", "draining"]))
    def set_queue(self, queue: str, state: str) -> None:
        self.same(lambda x: x.set_queue(queue, state), by=Who.HAND)

    @rule(name=NAMES)
    def erase_worker(self, name: str) -> None:
        self.same(lambda x: x.erase_worker(self.processes[name].worker), by=Who.HAND)

    # Steps of steps

    def started(self) -> Process:
        self.registered += 1
        self.same(lambda x: x.register(self.registered))
        return Process(self.registered)

    def claimed(self, name: str, queues: tuple[str, ...], size: int, *, is_told: bool = True) -> list[Claim]:
        self.leases += 1
        process, lease = self.processes[name], self.leases
        claims: list[Claim] = self.same(lambda x: x.claim(process.worker, queues, size, lease))
        process.held += claims if is_told else []
        return claims

    def let_go(self, claims: set[Claim]) -> None:
        for process in self.processes.values():
            process.held = [claim for claim in process.held if claim not in claims]

    def clock(self, seconds: int) -> None:
        now = max(-FURTHEST_SECONDS, min(FURTHEST_SECONDS, self.model.now + seconds))
        self.answered(lambda x: x.set_clock(now))


def answer(ask: Callable[[Any], Any], whom: Model | Ground) -> object:
    try:
        return ask(whom)
    except Refused as refused:
        return f"refused: {refused}"


def beat(whom: Model | Ground, *, worker: int) -> Beaten:
    return whom.beat(worker, beats=True, draining=False)


def made(told: int | str) -> MultipleResults[int]:
    return multiple(told) if isinstance(told, int) else multiple()


def reigning(reign: Reign | None) -> MultipleResults[Reign]:
    return multiple(reign) if reign else multiple()


def as_worker(claim: Claim, end: End) -> End:
    """What a worker makes of a failure when no attempt is left (execute/attempt.py)."""
    if isinstance(end, Failed) and claim.attempt >= claim.max_attempts:
        return Buried(end.fault, end.kind)
    return end


def differences(expected: Snapshot, found: Snapshot) -> list[str]:
    """Say in words where they differ."""
    return [
        line for table in expected if expected[table] != found[table] for line in unequal(table, expected[table], found[table])
    ]


def unequal(table: str, expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[str]:
    if table == "attempts":
        # In what order one statement writes several is left open.
        expected, found = sorted(expected, key=repr_of), sorted(found, key=repr_of)
    lines = [
        f"{table}: {column} is {there[column]}, not {row[column]}, in {there}"
        for row, there in zip(expected, found, strict=False)
        for column in row
        if row[column] != there[column]
    ]
    if len(expected) != len(found):
        lines.append(f"{table}: expected {expected}, found {found}")
    return lines


def repr_of(row: dict[str, Any]) -> str:
    return repr([(name, float(v) if isinstance(v, int) else v) for name, v in sorted(row.items())])
