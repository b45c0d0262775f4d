"""The product's own statements as steps: the same files that a worker, the leader and an operator send.

Only this module of the races knows their parameters. A step is a transaction, as in the product. `held` leaves its
transaction open until a later step commits it, so that other actors can act in between.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from uuid import UUID

import orchestrator
from orchestrator.claim.batch import where_to_look
from orchestrator.finish.record import row
from orchestrator.postgres import statement
from orchestrator.task.claimed import unknown
from orchestrator.task.outcome import Cancelled, DeadLettered, End, Failed, Fault, Outcome, Released, Snoozed
from tests.races.stepping import Actor, Answers, Params, Step

ROOT = Path(orchestrator.__file__).parent
WORKERS = {name: UUID(int=0xA0 + n) for n, name in enumerate("abc")}
LEASES = {"a": 101, "b": 102, "c": 103}
TERM_SECONDS = 10
AGE_BEATS = b"UPDATE orchestrator.workers SET beat_at = beat_at - 2 * dead_after; "

FAILED = Failed(Fault("ValueError", "it failed"), "failed", 60)
DEAD_LETTERED = DeadLettered(Fault("ValueError", "it failed for good"), "failed")
SNOOZED = Snoozed(60)
RELEASED = Released()
CANCELLED = Cancelled("not needed")


def load(path: str, section: str = statement.WHOLE) -> bytes:
    return statement.load(str(ROOT / path), Path(path).name, section)


SESSION = load("postgres/session.sql")


# Actors


def worker(name: str, *steps: Step, session: str = "", settings: bytes = b"") -> Actor:
    """A worker's session, which writes under the worker's one lease. `session` names a second session of the same
    worker."""
    return Actor(
        session or name, "worker", steps, LEASES[name], SESSION + b";" + settings, gives_up=bool(settings)
    )


def leader(*steps: Step, name: str = "leader") -> Actor:
    return Actor(name, "leader", steps, settings=SESSION)


def operator(*steps: Step, name: str = "operator") -> Actor:
    return Actor(name, "operator", steps)


# Transactions


def held(*steps: Step) -> tuple[Step, ...]:
    """Run these steps in one transaction, and commit it in a step of its own."""
    first, *others = steps
    return (replace(first, query=b"BEGIN; " + first.query), *others, Step(f"commit {first.name}", b"COMMIT"))


def broken(step: Step, part: str, instead: str = "") -> Step:
    """Plant a fault: the same statement with one part missing or replaced."""
    assert part.encode() in step.query, f"{step.name} does not hold {part}"
    return replace(step, query=step.query.replace(part.encode(), instead.encode()))


def again(step: Step) -> Step:
    return replace(step, name=f"{step.name} again")


def undone(*steps: Step) -> tuple[Step, ...]:
    """Run these steps in one transaction, and roll it back."""
    first, *others = steps
    return (replace(first, query=b"BEGIN; " + first.query), *others, Step("rollback", b"ROLLBACK"))


# The statements of a worker


def claim(name: str, *, queues: Sequence[str] = ("default",), batch_size: int = 10) -> Step:
    given = {"batch_size": batch_size, **everywhere(queues), **mine(name)}
    return Step("claim", load("claim/batch.sql"), given)


def everywhere(queues: Sequence[str]) -> Params:
    """Claim from the whole of these queues."""
    return where_to_look(queues, None)


def begin(name: str, *ids: int) -> Step:
    return Step("begin", load("execute/mark_running.sql"), {**pairs(name, ids), "ages": [0] * len(ids)})


def complete(name: str, *ids: int) -> Step:
    return Step("finish", complete_and_return_ids(), successes(name, ids))


def successes(name: str, ids: Sequence[int]) -> Params:
    return {**pairs(name, ids), "results": ['"done"'] * len(ids), "ages": [1000] * len(ids)}


def complete_and_return_ids() -> bytes:
    """Return the statement that writes successes, changed so that it always answers with the accepted ids."""
    query, told = (
        load("finish/complete.sql"),
        b"SELECT\n    pg_catalog.count(*),\n",
    )
    assert told in query
    return query[: query.index(told)] + b"SELECT id FROM done"


def settle(name: str, end: End, *ids: int) -> Step:
    return Step("finish", load("finish/settle.sql"), {**pairs(name, ids), **settled(name, end, len(ids))})


def settled(name: str, end: End, count: int) -> Params:
    unbegun = Outcome(unknown(id=0, lease=0, queue="", type="", attempt=1), end)
    columns = dict(zip(("ends", "delays", "charged", "errors", "records"), row(unbegun), strict=True))
    given = {key: [value] * count for key, value in columns.items()}
    return {**given, "worker_id": WORKERS[name], "ages": [1000] * count}


def recorded(name: str, *ids: int) -> Step:
    return Step("recorded", load("finish/recorded.sql"), pairs(name, ids))


def finish_like_the_outbox(name: str, *ids: int) -> tuple[Step, ...]:
    """Finish like the outbox: first all tasks; after a lock timeout only the rows that are not locked."""

    def after_giving_up(answers: Answers) -> Params | None:
        return pairs(name, ids) if answers["finish"].error else None

    def what_was_free(answers: Answers) -> Params | None:
        free = answers["unlocked"].ids if "unlocked" in answers else ()
        return successes(name, free) if free else None

    first, commit = held(complete(name, *ids))
    return (
        first,
        Step("unlocked", b"ROLLBACK; BEGIN; " + load("finish/lock_unlocked.sql"), after_giving_up),
        Step("then", complete_and_return_ids(), what_was_free),
        commit,
    )


def sweep() -> Step:
    return Step("sweep", load("claim/sweep.sql"), {"batch_size": 1000, "queues": ["default"]})


def beat(name: str, *, beacon: int | None = None) -> Step:
    """A beat; its answer is whether the worker is alive."""
    given: dict[str, object] = {"beats": True, "draining": False, "beacon": beacon, "rings": False}
    given |= {"id": WORKERS[name], "term_seconds": TERM_SECONDS, "blocked_seconds": None}
    return Step("beat", load("worker/beat.sql"), given)


def take_beacon(name: str, beacon: int) -> tuple[Step, Step]:
    """Take a beacon, and release it: the session is used by the next schedule."""
    taken = Step(
        "beacon", load("notify/listen.sql", "beacon"), {"worker_id": WORKERS[name], "beacon": beacon}
    )
    return taken, Step("release beacon", b"SELECT pg_advisory_unlock_all()")


def renew(name: str) -> Step:
    """A beat; its answer is the term."""
    return replace(beat(name), column=2)


def ghosts(name: str) -> Step:
    """The tasks that the database says a worker holds, and the worker does not know of; the answer is their ids."""
    return Step("look", load("worker/leases.sql"), {"id": WORKERS[name], "ids": [], "leases": []}, column=1)


def release_ghosts(name: str) -> Step:
    def found(answers: Answers) -> Params | None:
        ids = answers["look"].ids
        return {**pairs(name, ids), **settled(name, RELEASED, len(ids))} if ids else None

    return Step("finish", load("finish/settle.sql"), found)


def deregister(name: str) -> Step:
    return Step("deregister", load("worker/deregister.sql"), {"id": WORKERS[name]})


def mine(name: str) -> Params:
    return {"worker_id": WORKERS[name], "lease": LEASES[name]}


def pairs(name: str, ids: Sequence[int]) -> Params:
    return {"ids": list(ids), "leases": [LEASES[name]] * len(ids)}


# The statements of the leader


def recover(*, later: bool = False, beacon_lost: Mapping[str, datetime] | None = None) -> Step:
    """Take back the tasks of workers whose beat is too old, and of workers without a beacon: `beacon_lost` has the beat
    after which the beacon was missing. `later`: first make all beats too old."""
    given = {"spares_after_restart": False, "batch_size": 1000, "only_ids": None}
    without_beacon = {WORKERS[name]: moment for name, moment in (beacon_lost or {}).items()}
    more = {"gone_ids": list(without_beacon), "gone_beats": list(without_beacon.values())}
    more |= {"watched_ids": None, "watched_beats": None}
    query = (AGE_BEATS if later else b"") + load("maintain/recover.sql")
    return Step("recover", query, {**given, **more})


def timeouts() -> Step:
    return Step(
        "timeouts",
        load("maintain/timeouts.sql"),
        {"margin_seconds": 15, "batch_size": 1000, "only_ids": None},
    )


def purge(kind: str) -> Step:
    return Step("purge", load("maintain/retention.sql"), {"kind": kind, "batch_size": 1000})


def find_missing_workers() -> Step:
    return Step(
        "missing", load("maintain/missing_workers.sql"), {"spares_after_restart": False, "late": 1}, column=1
    )


def elect(name: str) -> tuple[Step, Step, Step]:
    """The statements of an election; the answer of the last is the term."""
    given = {"id": WORKERS[name], "term_seconds": TERM_SECONDS, "gone_id": None, "gone_beat_at": None}
    return (
        without_lock_timeout(Step("check leader", load("lead/lock_leader.sql"))),
        Step("remove leader", load("lead/remove_leader.sql"), given),
        # In one message: a worker that has become leader excludes all others until the end of its transaction.
        Step("elect", load("lead/become_leader.sql") + b"; " + load("lead/take_term.sql"), given),
    )


def elect_at_once(name: str) -> Step:
    """The same in one message, for races in which the time between the statements does not matter."""
    steps = elect(name)
    return Step("elect", b"; ".join(step.query for step in steps), steps[-1].params)


def resign(name: str, term: int) -> tuple[Step, Step]:
    given = {"id": WORKERS[name], "term": term}
    return Step("own", load("lead/lock_own_row.sql"), given), Step("resign", load("lead/resign.sql"), given)


def resign_if_elected(name: str) -> Step:
    def won(answers: Answers) -> Params | None:
        return {"id": WORKERS[name], "term": terms[0]} if (terms := answers["elect"].ids) else None

    own, resigned = resign(name, 0)
    return Step("resign", b"BEGIN; " + own.query + b"; " + resigned.query + b"; COMMIT", won)


def duty(name: str, term: int | None = None) -> tuple[Step, Step]:
    """The fence, and one write after it, in this term or the one just won. If the fence refuses, there is no write."""

    def leadership(answers: Answers) -> Params | None:
        terms = [term] if term is not None else answers["elect"].ids
        return {"id": WORKERS[name], "term": terms[0], "limit": "5s"} if terms else None

    def behind_the_fence(answers: Answers) -> Params | None:
        fenced = "fence" in answers and answers["fence"].rows
        return leadership(answers) if fenced else None

    write = b"INSERT INTO races.terms (actor, what, term) VALUES (%(id)s, 'duty', %(term)s) RETURNING term"
    fence = without_lock_timeout(Step("fence", load("lead/fence.sql"), leadership))
    return fence, Step("duty", write, behind_the_fence)


def without_lock_timeout(step: Step) -> Step:
    """Turn off the lock_timeout of the statement itself. On a busy machine it would end an intended wait."""
    return broken(step, "'lock_timeout', '250ms'", "'lock_timeout', '0'")


# The clock and the gate of the arena


def time_passes(*, seconds: float) -> Step:
    query = b"UPDATE orchestrator.test_clock SET now = now + make_interval(secs => %(seconds)s)"
    return Step("passes", query, {"seconds": seconds})


def shut() -> Step:
    """Stop every `gated` actor in the middle of its statement, where it reads the clock."""
    return Step("shut", b"SELECT 1 FROM pg_advisory_lock(1)")


def open_again() -> Step:
    return Step("open", b"SELECT 1 FROM pg_advisory_unlock(1)")


def gated(actor: Actor) -> Actor:
    return replace(actor, settings=actor.settings + b"; SET races.gated = 'on'")
