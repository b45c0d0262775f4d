"""The SQL of these tests: the reset between two stories, the query after each step, manual changes and enqueues."""

from typing import LiteralString

# No jitter, because the reference must know when a retry is due.
DECLARE = """
INSERT INTO orchestrator.types (name, backoff_base, backoff_factor, backoff_cap, backoff_jitter)
VALUES (%s, make_interval(secs => %s), 2, make_interval(secs => %s), 0)
"""
ADD_QUEUE = "INSERT INTO orchestrator.queues (name) VALUES (%s) ON CONFLICT DO NOTHING"
ADD_LEAF = "SELECT orchestrator.ensure_partition(%s)"
SET_CLOCK = "UPDATE orchestrator.test_clock SET now = %s"

RESET = b"""
DELETE FROM orchestrator.tasks_live;
DELETE FROM orchestrator.tasks_done;
DELETE FROM orchestrator.tasks_dead;
DELETE FROM orchestrator.attempts;
DELETE FROM orchestrator.audit;
DELETE FROM orchestrator.idempotency_keys;
DELETE FROM orchestrator.workers;
UPDATE orchestrator.queues SET state = 'active' WHERE state <> 'active';
SELECT setval('orchestrator.tasks_id_seq', 1, false), setval('orchestrator.term_seq', 1, false)
"""

ENQUEUE = """
SELECT orchestrator.enqueue(
    %(type)s, queue => %(queue)s, key => %(key)s, key_window => make_interval(secs => %(window)s),
    delay => make_interval(secs => %(delay)s), priority => %(priority)s, max_attempts => %(max_attempts)s,
    timeout => make_interval(secs => %(timeout)s)
)
"""
INSERT = """
INSERT INTO orchestrator.tasks (type, queue, idempotency_key, run_at, priority, max_attempts, timeout)
VALUES (
    %(type)s, %(queue)s, %(key)s, orchestrator.clock() + make_interval(secs => %(delay)s), %(priority)s,
    %(max_attempts)s, make_interval(secs => %(timeout)s)
)
RETURNING id
"""
REQUEUE_WHERE = """
SELECT orchestrator.requeue_where(status => %(status)s, queue => %(queue)s, at_most => %(at_most)s)
"""
QUEUE_STATES: dict[str, LiteralString] = {
    "active": "SELECT orchestrator.resume_queue(%(queue)s)",
    "paused": "SELECT orchestrator.pause_queue(%(queue)s)",
    "draining": "SELECT orchestrator.drain_queue(%(queue)s)",
}


def seconds(column: LiteralString) -> LiteralString:
    """Return a time as seconds since ZERO (rows.py)."""
    return f"date_part('epoch', {column} - timestamptz '2030-06-01 23:00 UTC')"


def number(column: LiteralString) -> LiteralString:
    """Return a worker's id as its number."""
    return f"('x' || right({column}::text, 8))::bit(32)::integer"


def rows(columns: LiteralString, table: LiteralString, order: LiteralString) -> LiteralString:
    return (
        f"(SELECT coalesce(json_agg(r), '[]') FROM "  # noqa: S608 - constants
        f"(SELECT {columns} FROM orchestrator.{table} AS t ORDER BY {order}) AS r)"
    )


# Everything in one row, and one round trip.
READ = "SELECT " + ", ".join(
    (
        rows(
            "t.id, substr(t.tableoid::regclass::text, 14) AS leaf, t.status, t.queue, t.priority, t.attempt,"
            " t.max_attempts, t.losses, t.lease, t.idempotency_key AS key, t.error ->> 'class' AS error,"
            f" {number('t.worker_id')} AS worker, {seconds('t.run_at')} AS run_at,"
            f" {seconds('t.claimed_at')} AS claimed_at, {seconds('t.started_at')} AS started_at,"
            f" {seconds('t.finished_at')} AS finished_at, t.result::text AS result,"
            " date_part('epoch', t.timeout) AS timeout",
            "tasks",
            "t.id",
        ),
        rows(
            f"{number('t.id')} AS id, t.state, {seconds('t.beat_at')} AS beat_at, t.is_leader, t.term,"
            f" {seconds('t.leader_until')} AS leader_until",
            "workers",
            "t.id",
        ),
        rows(
            f"t.key, t.task_id AS task, {seconds('t.expires_at')} AS expires_at", "idempotency_keys", "t.key"
        ),
        rows("t.name, t.state", "queues", "t.name"),
        rows(
            f"t.task_id, t.attempt, t.outcome, t.error ->> 'class' AS error, t.lease,"
            f" {number('t.worker_id')} AS worker, {seconds('t.started_at')} AS started_at,"
            f" {seconds('t.finished_at')} AS finished_at",
            "attempts",
            "t.id",
        ),
        rows("t.action, t.task_id, t.queue", "audit", "t.id"),
    )
)
