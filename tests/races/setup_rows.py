"""The rows before and after a race: a few rows, written and read in one message each.

The database of a race has more triggers than the product's: that of tests/invariants, and those that record terms.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from tests.races.statements import LEASES, TERM_SECONDS, WORKERS

Columns = dict[str, Any]

WATCH = """
CREATE SCHEMA races;
-- The begin and end of each term, and the duties done in it, in one order.
CREATE TABLE races.terms (n bigint GENERATED ALWAYS AS IDENTITY, actor text, what text, term bigint);
CREATE FUNCTION races.write_term() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO races.terms (actor, what, term)
    VALUES (NEW.id, CASE WHEN NEW.is_leader THEN 'begins' ELSE 'ends' END, NEW.term);
    RETURN NULL;
END
$$;
CREATE TRIGGER races_began AFTER INSERT ON orchestrator.workers
    FOR EACH ROW WHEN (NEW.is_leader) EXECUTE FUNCTION races.write_term();
-- The term begins when its number is drawn: a worker that has only become leader has no term yet.
CREATE TRIGGER races_drawn AFTER UPDATE ON orchestrator.workers
    FOR EACH ROW WHEN (NEW.is_leader AND NEW.term <> 0 AND NEW.term IS DISTINCT FROM OLD.term)
    EXECUTE FUNCTION races.write_term();
CREATE TRIGGER races_changed AFTER UPDATE ON orchestrator.workers
    FOR EACH ROW WHEN (OLD.is_leader AND NOT NEW.is_leader) EXECUTE FUNCTION races.write_term();
INSERT INTO orchestrator.types (name) VALUES ('mail');
"""

CLEAR = """
DELETE FROM orchestrator.tasks_live;
DELETE FROM orchestrator.tasks_done;
DELETE FROM orchestrator.tasks_dead;
DELETE FROM orchestrator.attempts;
DELETE FROM orchestrator.idempotency_keys;
DELETE FROM orchestrator.audit;
DELETE FROM orchestrator.workers;
DELETE FROM races.terms;
UPDATE orchestrator.queues SET state = 'active' WHERE state <> 'active';
SELECT setval('orchestrator.tasks_id_seq', 10), setval('orchestrator.term_seq', 10);
"""

# A statement can be stopped where it calls this, after it has taken its snapshot. Other sessions may then change and
# commit what it is about to lock. Only sessions with races.gated = 'on' stop. VOLATILE: the planner also calls a STABLE
# function, and would stop there.
GATE = """
CREATE OR REPLACE FUNCTION orchestrator.clock() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('races.gated', true) = 'on' THEN
        PERFORM pg_advisory_lock_shared(1), pg_advisory_unlock_shared(1);
    END IF;
    RETURN statement_timestamp();
END
$$;
"""

# Everything in one row, and one round trip.
READ = """
SELECT
    (SELECT coalesce(json_agg(t), '[]') FROM orchestrator.tasks AS t),
    (SELECT coalesce(json_agg(h ORDER BY h.n), '[]') FROM watch.history AS h),
    (SELECT coalesce(json_agg(a ORDER BY a.id), '[]') FROM orchestrator.attempts AS a),
    (SELECT coalesce(json_agg(a ORDER BY a.id), '[]') FROM orchestrator.audit AS a),
    (SELECT coalesce(json_agg(k), '[]') FROM orchestrator.idempotency_keys AS k),
    (SELECT coalesce(json_agg(w), '[]') FROM orchestrator.workers AS w),
    (SELECT coalesce(json_agg(r ORDER BY r.n), '[]') FROM races.terms AS r)
"""


@dataclass(frozen=True, slots=True)
class FinalRows:
    """The content of the database after a schedule; `history` in the order of the writes."""

    tasks: list[Columns]
    history: list[Columns]
    attempts: list[Columns]
    audit: list[Columns]
    keys: list[Columns]
    workers: list[Columns]
    terms: list[Columns]

    def as_text(self) -> str:
        """Return the state of each task."""
        return ", ".join(
            f"{task['id']} {task['status']}" for task in sorted(self.tasks, key=lambda t: t["id"])
        )


def reset(start: tuple[str, ...]) -> bytes:
    """Return the message that restores the initial rows."""
    return ";\n".join([CLEAR, *start, "DELETE FROM watch.history"]).encode()


def read(observer: psycopg.Connection) -> FinalRows:
    found = observer.execute(READ).fetchone()
    assert found is not None
    return FinalRows(*found)


def task(task_id: int, status: str = "pending", *, of: str = "", **columns: object) -> str:
    """Add a task with all columns that its worker would have written; `of` names the worker."""
    row: dict[str, object] = {
        "id": task_id, "type": "mail", "queue": "default", "status": status, "priority": 50, "max_attempts": 4,
        "timeout": "5 minutes", "aging_us": 0, "run_at": "now - 1 hour",
    }  # fmt: skip
    if of:
        row |= {"lease": LEASES[of], "worker_id": WORKERS[of], "claimed_at": "now", "attempt": 1}
    if of and status != "claimed":
        row |= {"started_at": "now"}
    if status in ("completed", "cancelled", "dead_letter"):
        row |= {"finished_at": "now"}
    return put("tasks", row | columns)


def key(name: str, task_id: int, *, expires: str = "now + 1 hour") -> str:
    """Add an idempotency key that a task holds."""
    return put("idempotency_keys", {"type": "mail", "key": name, "task_id": task_id, "expires_at": expires})


def workers(names: str, *, late: str = "", leader: str = "") -> str:
    """Add the rows of these workers. The last beat of the `late` is an hour old; the leader is in its first term."""
    fixed = {"host": "host", "pid": 1, "version": "0", "queues": "{default}", "capacity": 1}
    leadership = {"is_leader": True, "term": 1, "leader_until": f"now + {TERM_SECONDS} seconds"}
    return "; ".join(
        put(
            "workers",
            {"id": WORKERS[name], "beat_at": "now - 1 hour" if name in late else "now", **fixed}
            | (leadership if name == leader else {}),
        )
        for name in names
    )


def without_beacon(name: str, beacon: int, beat_at: datetime) -> str:
    """Set a worker's beacon in its row, and the time of its last beat."""
    change = sql.SQL("UPDATE orchestrator.workers SET beacon = {}, beat_at = {} WHERE id = {}")
    return change.format(beacon, beat_at, WORKERS[name]).as_string()


def put(table: str, row: dict[str, object]) -> str:
    """Return the INSERT of a row. A time is written as `now`, or `now - 1 hour`."""
    insert = sql.SQL("INSERT INTO orchestrator.{} ({}) VALUES ({})").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, row)),
        sql.SQL(", ").join(map(value, row.values())),
    )
    return insert.as_string()


def value(given: object) -> sql.Composable:
    if not isinstance(given, str) or not given.startswith("now"):
        return sql.Literal(given)
    # Refuse other words that begin with now.
    assert given == "now" or given[3] == " ", given
    sign, _, length = given.removeprefix("now").strip().partition(" ")
    moment = sql.SQL("clock_timestamp() {} interval {}")
    return moment.format(sql.SQL("-" if sign == "-" else "+"), sql.Literal(length or "0"))
