"""The product's own statements as steps: the very files that a worker, the leader and a person send.

What they are given is said here and nowhere else among the races. A step by itself is a transaction, as in the product;
`held` leaves its transaction open until a step of its own commits it, so that others may come in between.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from psycopg.types.json import Jsonb

import orchestrator
from orchestrator.finish.record import row
from orchestrator.task.outcome import Buried, Cancelled, End, Failed, Fault, Released, Snoozed
from tests.races.stepping import Actor, Answers, Params, Step

ROOT = Path(orchestrator.__file__).parent
WORKERS = {name: UUID(int=0xA0 + n) for n, name in enumerate("abc")}
LEASES = {"a": 101, "b": 102, "c": 103}

FAILED = Failed(Fault("ValueError", "it failed"), "failed", 60)
GIVEN_UP = Buried(Fault("ValueError", "it failed for good"), "failed")
SNOOZED = Snoozed(60)
RELEASED = Released()
CANCELLED = Cancelled("not needed")


def load(path: str) -> bytes:
    return (ROOT / path).read_bytes()


SESSION = load("postgres/session.sql")


# Who


def worker(name: str, *steps: Step, session: str = "", settings: bytes = b"") -> Actor:
    """A worker's session, writing under the worker's one lease; `session` names a second one of the same worker."""
    return Actor(
        session or name, "worker", steps, LEASES[name], SESSION + b";" + settings, gives_up=bool(settings)
    )


def leader(*steps: Step, name: str = "leader") -> Actor:
    return Actor(name, "leader", steps, settings=SESSION)


def hand(*steps: Step, name: str = "hand") -> Actor:
    return Actor(name, "hand", steps)


# How


def held(*steps: Step) -> tuple[Step, ...]:
    """Take these steps in one transaction, and commit it in a step of its own."""
    first, *others = steps
    return (replace(first, query=b"BEGIN; " + first.query), *others, Step(f"commit {first.name}", b"COMMIT"))


def broken(step: Step, part: str, instead: str = "") -> Step:
    """Plant a fault: the same statement with one part of it missing, or another in its place."""
    assert part.encode() in step.query, f"{step.name} does not hold {part}"
    return replace(step, query=step.query.replace(part.encode(), instead.encode()))


def again(step: Step) -> Step:
    return replace(step, name=f"{step.name} again")


def undone(*steps: Step) -> tuple[Step, ...]:
    """Take these steps in one transaction, and roll it back."""
    first, *others = steps
    return (replace(first, query=b"BEGIN; " + first.query), *others, Step("rollback", b"ROLLBACK"))


# A worker's


def claim(name: str, *, queues: Sequence[str] = ("default",), batch_size: int = 10) -> Step:
    given = {"queues": list(queues), "batch_size": batch_size}
    return Step("claim", load("claim/batch.sql"), {**given, **mine(name)})


def begin(name: str, *ids: int) -> Step:
    return Step("begin", load("execute/begin.sql"), pairs(name, ids))


def complete(name: str, *ids: int) -> Step:
    return Step("finish", load("finish/complete.sql"), {**pairs(name, ids), "results": ['"done"'] * len(ids)})


def settle(name: str, end: End, *ids: int) -> Step:
    return Step("finish", load("finish/settle.sql"), {**pairs(name, ids), **settled(name, end, len(ids))})


def settled(name: str, end: End, count: int) -> Params:
    columns = dict(zip(("ends", "delays", "charged", "errors", "records"), row(end), strict=True))
    return {key: [value] * count for key, value in columns.items()} | {"worker_id": WORKERS[name]}


def recorded(name: str, *ids: int) -> Step:
    return Step("recorded", load("finish/recorded.sql"), pairs(name, ids))


def patiently(name: str, *ids: int) -> tuple[Step, ...]:
    """Finish as the outbox does: all at once, and if locks are in the way, then what nobody has locked."""

    def after_giving_up(answers: Answers) -> Params | None:
        return pairs(name, ids) if answers["finish"].error else None

    def what_was_free(answers: Answers) -> Params | None:
        free = answers["unlocked"].ids if "unlocked" in answers else ()
        return {**pairs(name, free), "results": ['"done"'] * len(free)} if free else None

    first, commit = held(complete(name, *ids))
    return (
        first,
        Step("unlocked", b"ROLLBACK; BEGIN; " + load("finish/unlocked.sql"), after_giving_up),
        Step("then", load("finish/complete.sql"), what_was_free),
        commit,
    )


def sweep() -> Step:
    return Step("sweep", load("claim/sweep.sql"), {"batch_size": 1000})


def beat(name: str) -> Step:
    return Step("beat", load("worker/beat.sql"), {"id": WORKERS[name], "state": "running"})


def deregister(name: str) -> Step:
    return Step("deregister", load("worker/deregister.sql"), {"id": WORKERS[name]})


def mine(name: str) -> Params:
    return {"worker_id": WORKERS[name], "lease": LEASES[name]}


def pairs(name: str, ids: Sequence[int]) -> Params:
    return {"ids": list(ids), "leases": [LEASES[name]] * len(ids)}


# The leader's


def recover(*, dead_after_seconds: float = 30) -> Step:
    given = {"dead_after_seconds": dead_after_seconds, "batch_size": 1000}
    return Step("recover", load("maintain/recover.sql"), given)


# A hand's


def sql(name: str, query: bytes, **params: object) -> Step:
    return Step(name, query, params)


def by_function(name: str, task_id: int) -> Step:
    """What has a function: an unknown id is an error there."""
    return sql(name, b"SELECT %(id)s WHERE orchestrator." + name.encode() + b"(%(id)s)", id=task_id)


def requeue(*ids: int) -> Step:
    query = b"UPDATE orchestrator.tasks SET status = 'pending' WHERE id = ANY (%(ids)s) RETURNING id"
    return sql("requeue", query, ids=list(ids))


def requeue_dead() -> Step:
    return sql("requeue", b"SELECT orchestrator.requeue_where(status => 'dead_letter')")


def cancel(*ids: int) -> Step:
    query = b"UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = ANY (%(ids)s) RETURNING id"
    return sql("cancel", query, ids=list(ids))


def raise_priority(where: str = "finished_at IS NULL") -> Step:
    query = b"UPDATE orchestrator.tasks SET priority = 90 WHERE %b RETURNING id"
    return sql("priority", query % where.encode())


def delete(*ids: int) -> Step:
    return sql(
        "delete", b"DELETE FROM orchestrator.tasks WHERE id = ANY (%(ids)s) RETURNING id", ids=list(ids)
    )


def pause() -> Step:
    return sql("pause", b"SELECT orchestrator.pause_queue('default')")


def run_at(task_id: int, *, hours: int) -> Step:
    query = b"UPDATE orchestrator.tasks SET run_at = now() + %(after)s WHERE id = %(id)s RETURNING id"
    return sql("run_at", query, id=task_id, after=timedelta(hours=hours))


def shut() -> Step:
    """Stop everybody `gated` in the middle of their statements, where they ask for the time (ground.GATE)."""
    return sql("shut", b"SELECT 1 FROM pg_advisory_lock(1)")


def open_again() -> Step:
    return sql("open", b"SELECT 1 FROM pg_advisory_unlock(1)")


def gated(actor: Actor) -> Actor:
    return replace(actor, settings=actor.settings + b"; SET races.gated = 'on'")


def lock(task_id: int) -> Step:
    """Look at a task and keep it locked: what a person's forgotten transaction does."""
    return sql("lock", b"SELECT id FROM orchestrator.tasks_live WHERE id = %(id)s FOR UPDATE", id=task_id)


def insert(key: str = "k") -> Step:
    query = b"INSERT INTO orchestrator.tasks (type, idempotency_key) VALUES ('mail', %(key)s) RETURNING id"
    return sql("insert", query, key=key)


def enqueue(key: str = "k") -> Step:
    return sql("enqueue", b"SELECT orchestrator.enqueue('mail', key => %(key)s)", key=key)


def enqueue_many(*keys: str) -> Step:
    items = Jsonb([{"type": "mail", "key": key} for key in keys])
    return sql("enqueue", b"SELECT id, created FROM orchestrator.enqueue_many(%(items)s)", items=items)
