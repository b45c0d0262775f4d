"""What must hold after every schedule, whatever the race: the design's invariants, read off the rows and their history.

    I1   no task is lost, and none is there twice
    I2   nobody is told of a task that never was
    I3   at most one live lease a task
    I4   a write under a superseded lease changes nothing, and says so
    I5   one accepted outcome a lease; an end is left by a hand alone
    I6   no run without a cause
    I8   terms strictly rise, one at a time, and no duty is done in a term that is over
    I10  attempts are counted fairly: the unstarted uncharged, a loss only for what had begun, never more than allowed
    I11  one task a key
    I15  every failure and every loss is recorded once, every step of a hand is in the audit
    I16  only allowed transitions

Each rule yields what it finds wrong, in words; none raises. I7 (nothing is stuck) is a race's own to ask: `stuck`.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from orchestrator.task.status import FINISHED, LEASED, Status, Who, may
from tests.races.ground import Ground
from tests.races.past import Move, Past, moves, timed_out
from tests.races.statements import WORKERS
from tests.races.stepping import Actor, Story

Rule = Callable[[Past], Iterator[str]]


def faults(started_with: frozenset[int], story: Story, ground: Ground) -> list[str]:
    """Return everything that must not be, in words."""
    past = Past(started_with, story, ground, tuple(moves(story.actors, ground.history)))
    return [f"{rule.__name__}: {fault}" for rule in RULES for fault in rule(past)]


# I1, I3


def every_task_is_there_once(past: Past) -> Iterator[str]:
    made = {move.task_id for move in past.moves if move.old is None}
    deleted = {move.task_id for move in past.moves if move.new is None}
    expected = Counter((past.started_with | made) - deleted)
    found = Counter(task["id"] for task in past.ground.tasks)
    if found != expected:
        yield f"I1: expected {dict(expected)}, found {dict(found)}"
    for move in past.moves:
        by_right = move.actor.kind == "hand" or (move.actor.kind == "leader" and move.step[0] in FINISHED)
        if move.new is None and not by_right:
            yield f"I1: {move}, and nowhere else"
    for task in past.ground.tasks:
        last = next((move.new for move in reversed(past.moves) if move.task_id == task["id"]), task)
        if last != task:
            yield f"I1: task {task['id']} is {task}, but was last written as {last}"
        if (task["status"] in LEASED) != (
            task["status"] in ("claimed", "running") and task["lease"] is not None
        ):
            yield f"I3: task {task['id']} is {task['status']} under the lease {task['lease']}"


# I4, I16


def only_the_lease_may_write(past: Past) -> Iterator[str]:
    for move in past.moves:
        if move.old is None or move.actor.kind == "hand":
            continue
        held = move.old["lease"]
        match move.actor.kind, move.step:
            case _, ("scheduled", "pending"):
                if move.old["run_at"] != (move.new or {})["run_at"]:
                    yield f"I16: {move}, and changed run_at"
            case "worker", ("pending", "claimed"):
                if move.new is None or (move.new["lease"], move.new["worker_id"]) != ours(move.actor):
                    yield f"I4: {move} under another's lease"
            case "worker", _:
                if held != move.actor.lease:
                    yield f"I4: {move} under the lease {move.actor.lease}, when {held} held"
            case "leader", (old, _) if old in LEASED:
                if not timed_out(move) and move.old["worker_id"] not in gone(past.ground):
                    yield f"I4: {move}, which is {move.old['worker_id']}'s, who lives"
            case "leader", (old, _) if old not in FINISHED:
                yield f"I4: {move}, which nobody holds"


def ours(actor: Actor) -> tuple[int | None, str]:
    return actor.lease, next(str(WORKERS[name]) for name in WORKERS if actor.name.startswith(name))


def gone(ground: Ground) -> set[str]:
    """Return the ids of the workers that were declared dead, or have no row."""
    living = {worker["id"] for worker in ground.workers if worker["state"] != "dead"}
    return {str(worker) for worker in WORKERS.values()} - living


def only_allowed_steps_are_taken(past: Past) -> Iterator[str]:
    for move in past.moves:
        old, new = move.step
        if old is None or new is None or old == new:
            continue
        who = Who.HAND if move.actor.kind == "hand" else Who.WORKER
        if not may(who, Status(old), Status(new)):
            yield f"I16: {move}"
        if who is Who.HAND and move.new is not None and move.new["lease"] is not None:
            yield f"I4: {move}, and left the lease {move.new['lease']}"


# I5, I6


def a_lease_ends_once(past: Past) -> Iterator[str]:
    ends: Counter[tuple[int, int]] = Counter()
    for move in past.moves:
        if move.old is not None and move.old["status"] in LEASED and move.step[1] not in LEASED:
            ends[move.task_id, move.old["lease"]] += 1
    for (task_id, lease), count in ends.items():
        if count > 1:
            yield f"I5: the lease {lease} of task {task_id} ended {count} times"


def an_end_is_left_by_hands_alone(past: Past) -> Iterator[str]:
    """Retention, which removes it, is seen to in every_task_is_there_once."""
    for move in past.moves:
        if move.step[0] in FINISHED and move.new is not None and move.actor.kind != "hand":
            yield f"I5: {move}"


def what_was_accepted_was_written(past: Past) -> Iterator[str]:
    accepted: Counter[tuple[int, int | None]] = Counter()
    for name, answers in past.story.answers.items():
        actor = past.story.actors[name]
        said = [i for step in ("finish", "then") if step in answers for i in answers[step].ids]
        if actor.kind != "worker" or "rollback" in answers:
            continue
        for task_id in said:
            accepted[task_id, actor.lease] += 1
        written = {
            m.task_id
            for m in past.moves
            if m.actor is actor and m.step[0] in LEASED and m.step[1] != "running"
        }
        if set(said) != written:
            yield f"I4: {name} was told that {said} were written, and {sorted(written)} were"
    for (task_id, lease), count in accepted.items():
        if count > 1:
            yield f"I5: {count} outcomes of task {task_id} were accepted under the lease {lease}"


def no_run_is_without_a_cause(past: Past) -> Iterator[str]:
    """A start needs, since the last one, a hand's requeue, a failure, a loss, or a worker that gave it back."""
    running: set[int] = set()
    for move in past.moves:
        if move.step[1] == "running" and move.step[0] != "running":
            if move.task_id in running:
                yield f"I6: {move}, and it ran already"
            running.add(move.task_id)
        elif move.step[0] == "running" and move.step[1] in ("pending", "scheduled"):
            running.discard(move.task_id)


# I8


def one_leads_at_a_time(past: Past) -> Iterator[str]:
    """A deed belongs to the term in which it is done."""
    leads: tuple[str, int] | None = None
    last = 0
    for line in past.ground.reigns:
        who, term = line["actor"], line["term"]
        match line["what"]:
            case "begins":
                if leads is not None:
                    yield f"I8: term {term} of {who} begins in that of {leads}"
                if term <= last:
                    yield f"I8: term {term} of {who} comes after term {last}"
                leads, last = (who, term), max(term, last)
            case "ends":
                leads = None
            case _:
                if leads != (who, term):
                    yield f"I8: {who} does a deed of term {term} in that of {leads}"


# I10


def attempts_are_counted_fairly(past: Past) -> Iterator[str]:
    for move in past.moves:
        if move.old is None or move.new is None:
            continue
        attempt, losses = (move.new[name] - move.old[name] for name in ("attempt", "losses"))
        if (attempt, losses) not in fair(move):
            yield f"I10: {move}: {attempt:+} attempts, {losses:+} losses"
    for task in past.ground.tasks:
        if not 0 <= task["attempt"] <= task["max_attempts"]:
            yield f"I10: task {task['id']} is at attempt {task['attempt']} of {task['max_attempts']}"


def fair(move: Move) -> set[tuple[int, int]]:
    """Return by how much attempt and losses may have changed."""
    assert move.old is not None
    begun = move.old["status"] == "running"
    match move.actor.kind, move.step:
        case _, ("scheduled", "pending"):
            return {(0, 0)}
        case "leader", ("running", _) if timed_out(move):
            return {(0, 0)}
        case "leader", (_, "pending"):
            return {(0, 1)} if begun else {(-1, 0)}
        case "leader", (_, "dead_letter"):
            return {(0, 1)} if begun else set()
        case "worker", ("pending", "claimed"):
            return {(1, 0)}
        case "worker", ("claimed" | "running", "pending" | "scheduled"):
            return {(0, 0), (-1, 0)}
        case "hand", (old, "pending" | "scheduled") if old not in ("pending", "scheduled"):
            return {(-move.old["attempt"], -move.old["losses"])}
        case _:
            return {(0, 0)}


# I11


def a_key_has_one_task(past: Past) -> Iterator[str]:
    """Of the tasks made in this race: one that was there may have let its key go, when that expired. And not of the
    cancelled ones, which have none."""
    made = [move.new for move in past.moves if move.old is None and move.new is not None]
    live = {task["id"] for task in past.ground.tasks if task["status"] != "cancelled"}
    keyed = [task for task in made if task["idempotency_key"] and task["id"] in live]
    for key, count in Counter(task["idempotency_key"] for task in keyed).items():
        if count > 1:
            yield f"I11: {count} tasks have the key {key}"
    holders = {(key["type"], key["key"]): key["task_id"] for key in past.ground.keys}
    for task in keyed:
        if (holder := holders.get((task["type"], task["idempotency_key"]))) != task["id"]:
            yield f"I11: task {task['id']} has a key that is held by {holder}"


def every_producer_was_told_of_a_task(past: Past) -> Iterator[str]:
    """Nobody is given the id of a task that never was: of a transaction that was rolled back."""
    known = past.started_with | {move.task_id for move in past.moves}
    for name, answers in past.story.answers.items():
        if "rollback" in answers or any(answer.error for answer in answers.values()):
            continue
        for step, answer in answers.items():
            if step.startswith(("enqueue", "insert")) and not known.issuperset(answer.ids):
                yield f"I2: {name} was told {answer.ids}, and there are {sorted(known)}"


def there(ground: Ground) -> set[int]:
    return {task["id"] for task in ground.tasks}


# I15


def causes_are_recorded_once(past: Past) -> Iterator[str]:
    expected = Counter(
        # Under the lease of an attempt that the leader ended, its worker would find its late outcome recorded.
        (move.task_id, None if timed_out(move) else move.old["lease"])
        for move in past.moves
        if move.old is not None and is_on_record(move)
    )
    found = Counter((attempt["task_id"], attempt["lease"]) for attempt in past.ground.attempts)
    if found != expected:
        yield f"I15: attempts hold {dict(found)}, and {dict(expected)} are to be recorded"


def is_on_record(move: Move) -> bool:
    """A start lost with its worker or by hand, a failure that is tried again, and a task given up; what workers release
    or snooze here has not begun."""
    assert move.old is not None
    if move.actor.kind == "hand":
        return bool(move.old["status"] == "running" and (move.new is None or move.new["lease"] is None))
    if move.new is None:
        return False
    if move.actor.kind == "leader":
        return bool(move.old["status"] == "running")
    ended = move.actor.kind == "worker" and move.old["status"] in LEASED
    charged = move.new["attempt"] == move.old["attempt"]
    return ended and (move.step[1] == "dead_letter" or (move.step[1] in ("pending", "scheduled") and charged))


def hands_are_audited(past: Past) -> Iterator[str]:
    done = Counter(
        m.task_id for m in past.moves if m.actor.kind == "hand" and m.old is not None and m.old != m.new
    )
    written = Counter(line["task_id"] for line in past.ground.audit if line["task_id"])
    if done != written:
        yield f"I15: hands changed {dict(done)}, and the audit holds {dict(written)}"


RULES: tuple[Rule, ...] = (
    every_task_is_there_once,
    only_the_lease_may_write,
    only_allowed_steps_are_taken,
    a_lease_ends_once,
    an_end_is_left_by_hands_alone,
    what_was_accepted_was_written,
    no_run_is_without_a_cause,
    one_leads_at_a_time,
    attempts_are_counted_fairly,
    a_key_has_one_task,
    every_producer_was_told_of_a_task,
    causes_are_recorded_once,
    hands_are_audited,
)


def stuck(ground: Ground) -> list[str]:
    """I7: return what nobody will ever run: held by a worker that has gone. For the end of a race, after a recovery."""
    living = {worker["id"] for worker in ground.workers if worker["state"] in ("running", "draining")}
    return [
        f"I7: task {task['id']} is {task['status']} with {task['worker_id']}, who is gone"
        for task in ground.tasks
        if task["status"] in LEASED and task["worker_id"] not in living
    ]
