"""Check the rows and the history of a finished schedule. tests/invariants states the invariants.

Each rule yields its findings as text; none raises an error. A race itself checks I7 (no task is stuck): `stuck`.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from orchestrator.task.status import FINISHED, LEASED
from tests.invariants.moves import Judge, wrong_in
from tests.invariants.terms import Terms
from tests.races.history import Move, Past, moves, timed_out
from tests.races.setup_rows import FinalRows
from tests.races.statements import WORKERS
from tests.races.stepping import Actor, Story

Rule = Callable[[Past], Iterator[str]]


def faults(started_with: frozenset[int], story: Story, final_rows: FinalRows) -> list[str]:
    """Return every violation, as text."""
    past = Past(started_with, story, final_rows, tuple(moves(story.actors, final_rows.history)))
    return [f"{rule.__name__}: {fault}" for rule in RULES for fault in rule(past)]


# I1


def every_task_exists_once(past: Past) -> Iterator[str]:
    made = {move.task_id for move in past.moves if move.old is None}
    deleted = {move.task_id for move in past.moves if move.new is None}
    expected = Counter((past.started_with | made) - deleted)
    found = Counter(task["id"] for task in past.final_rows.tasks)
    if found != expected:
        yield f"I1: expected {dict(expected)}, found {dict(found)}"
    for move in past.moves:
        by_right = move.actor.kind == "operator" or (move.actor.kind == "leader" and move.step[0] in FINISHED)
        if move.new is None and not by_right:
            yield f"I1: {move}, and nowhere else"
    for task in past.final_rows.tasks:
        last = next((move.new for move in reversed(past.moves) if move.task_id == task["id"]), task)
        if last != task:
            yield f"I1: task {task['id']} is {task}, but was last written as {last}"


# I4, I16


def only_the_lease_may_write(past: Past) -> Iterator[str]:
    for move in past.moves:
        if move.old is None or move.actor.kind == "operator":
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
                if not timed_out(move) and move.old["worker_id"] not in gone(past.final_rows):
                    yield f"I4: {move}, a task of {move.old['worker_id']}, which is alive"
            case "leader", (old, _) if old not in FINISHED:
                yield f"I4: {move}, which no worker holds"


def ours(actor: Actor) -> tuple[int | None, str]:
    return actor.lease, next(str(WORKERS[name]) for name in WORKERS if actor.name.startswith(name))


def gone(final_rows: FinalRows) -> set[str]:
    """Return the ids of the workers that are declared dead, or have no row."""
    living = {worker["id"] for worker in final_rows.workers if worker["state"] != "dead"}
    return {str(worker) for worker in WORKERS.values()} - living


# I3, I5, I10, I16, as in all suites


def rows_and_moves_are_valid(past: Past) -> Iterator[str]:
    judge = Judge()
    for task in past.final_rows.tasks:
        yield from wrong_in(task)
    for move in past.moves:
        yield from judge.faults(move)


# I5, I6


def accepted_outcomes_are_written(past: Past) -> Iterator[str]:
    accepted: Counter[tuple[int, int | None]] = Counter()
    for name, answers in past.story.answers.items():
        actor = past.story.actors[name]
        accepted_ids = [i for step in ("finish", "then") if step in answers for i in answers[step].ids]
        if actor.kind != "worker" or "rollback" in answers:
            continue
        for task_id in accepted_ids:
            accepted[task_id, actor.lease] += 1
        written = {
            m.task_id
            for m in past.moves
            if m.actor is actor and m.step[0] in LEASED and m.step[1] != "running"
        }
        if set(accepted_ids) != written:
            yield f"I4: {name} got the answer that {accepted_ids} were written, and {sorted(written)} were"
    for (task_id, lease), count in accepted.items():
        if count > 1:
            yield f"I5: {count} outcomes of task {task_id} were accepted under the lease {lease}"


def every_run_has_a_cause(past: Past) -> Iterator[str]:
    """A start needs, since the last start, a manual requeue, a failure, a loss, or a release by a worker."""
    running: set[int] = set()
    for move in past.moves:
        if move.step[1] == "running" and move.step[0] != "running":
            if move.task_id in running:
                yield f"I6: {move}, and it had started before"
            running.add(move.task_id)
        elif move.step[0] == "running" and move.step[1] in ("pending", "scheduled"):
            running.discard(move.task_id)


# I8


def one_leads_at_a_time(past: Past) -> Iterator[str]:
    """A duty belongs to the term in which it is done."""
    terms = Terms()
    for line in past.final_rows.terms:
        match line["what"]:
            case "begins":
                yield from terms.begins(line["actor"], line["term"])
            case "ends":
                terms.ends()
            case _:
                yield from terms.duty(line["actor"], line["term"])


# I10


def attempts_are_counted_fairly(past: Past) -> Iterator[str]:
    for move in past.moves:
        if move.old is None or move.new is None:
            continue
        attempt, losses = (move.new[name] - move.old[name] for name in ("attempt", "losses"))
        if (attempt, losses) not in fair(move):
            yield f"I10: {move}: {attempt:+} attempts, {losses:+} losses"


def fair(move: Move) -> set[tuple[int, int]]:
    """Return how much attempt and losses may have changed."""
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
        case "operator", (old, "pending" | "scheduled") if old not in ("pending", "scheduled"):
            return {(-move.old["attempt"], -move.old["losses"])}
        case _:
            return {(0, 0)}


# I11


def a_key_has_one_task(past: Past) -> Iterator[str]:
    """Among the tasks of this race: an older task may have lost its key when the key expired. Cancelled tasks have
    no key."""
    made = [move.new for move in past.moves if move.old is None and move.new is not None]
    live = {task["id"] for task in past.final_rows.tasks if task["status"] != "cancelled"}
    keyed = [task for task in made if task["idempotency_key"] and task["id"] in live]
    for key, count in Counter(task["idempotency_key"] for task in keyed).items():
        if count > 1:
            yield f"I11: {count} tasks have the key {key}"
    holders = {(key["type"], key["key"]): key["task_id"] for key in past.final_rows.keys}
    for task in keyed:
        if (holder := holders.get((task["type"], task["idempotency_key"]))) != task["id"]:
            yield f"I11: task {task['id']} has a key that is held by {holder}"


def every_returned_id_has_a_task(past: Past) -> Iterator[str]:
    """No producer gets the id of a task of a rolled-back transaction."""
    known = past.started_with | {move.task_id for move in past.moves}
    for name, answers in past.story.answers.items():
        if "rollback" in answers or any(answer.error for answer in answers.values()):
            continue
        for step, answer in answers.items():
            if step.startswith(("enqueue", "insert")) and not known.issuperset(answer.ids):
                yield f"I2: {name} got the ids {answer.ids}, and the tasks are {sorted(known)}"


# I15


def causes_are_recorded_once(past: Past) -> Iterator[str]:
    expected = Counter(
        # The record of a timeout has no lease: else the worker would take it for the record of its own late outcome.
        (move.task_id, None if timed_out(move) else move.old["lease"])
        for move in past.moves
        if move.old is not None and is_on_record(move)
    )
    found = Counter((attempt["task_id"], attempt["lease"]) for attempt in past.final_rows.attempts)
    if found != expected:
        yield f"I15: attempts holds {dict(found)}, expected {dict(expected)}"


def is_on_record(move: Move) -> bool:
    """A started attempt that was lost with its worker or by a manual change, a failure before a retry, and a dead
    letter. Tasks that workers release or snooze here have not started."""
    assert move.old is not None
    if move.actor.kind == "operator":
        return bool(move.old["status"] == "running" and (move.new is None or move.new["lease"] is None))
    if move.new is None:
        return False
    if move.actor.kind == "leader":
        return bool(move.old["status"] == "running")
    ended = move.actor.kind == "worker" and move.old["status"] in LEASED
    charged = move.new["attempt"] == move.old["attempt"]
    return ended and (move.step[1] == "dead_letter" or (move.step[1] in ("pending", "scheduled") and charged))


def manual_changes_are_audited(past: Past) -> Iterator[str]:
    done = Counter(
        m.task_id for m in past.moves if m.actor.kind == "operator" and m.old is not None and m.old != m.new
    )
    written = Counter(line["task_id"] for line in past.final_rows.audit if line["task_id"])
    if done != written:
        yield f"I15: manual changes of {dict(done)}, and the audit holds {dict(written)}"


RULES: tuple[Rule, ...] = (
    every_task_exists_once,
    only_the_lease_may_write,
    rows_and_moves_are_valid,
    accepted_outcomes_are_written,
    every_run_has_a_cause,
    one_leads_at_a_time,
    attempts_are_counted_fairly,
    a_key_has_one_task,
    every_returned_id_has_a_task,
    causes_are_recorded_once,
    manual_changes_are_audited,
)


def stuck(final_rows: FinalRows) -> list[str]:
    """I7: return the tasks that no worker will ever run, because a dead worker holds them. To be called at the end
    of a race, after a recovery."""
    living = {worker["id"] for worker in final_rows.workers if worker["state"] in ("running", "draining")}
    return [
        f"I7: task {task['id']} is {task['status']} with {task['worker_id']}, which is gone"
        for task in final_rows.tasks
        if task["status"] in LEASED and task["worker_id"] not in living
    ]
