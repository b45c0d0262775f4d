"""The statements of each role, and those that no role may run."""

from pathlib import Path

import orchestrator
from orchestrator.maintain import KINDS

ROOT = Path(orchestrator.__file__).parent

ENQUEUES = [
    "INSERT INTO orchestrator.tasks (type, payload) VALUES ('mail', '{}') RETURNING id",
    "INSERT INTO orchestrator.tasks (type, queue, priority, run_at, idempotency_key, max_attempts, timeout, tags,"
    " metadata, trace_context) VALUES ('mail', 'q', 1, now(), 'k', 1, '1 s', '{}', '{}', '{}')",
    "SELECT orchestrator.enqueue('mail', '{}', key => 'l')",
    'SELECT id, created FROM orchestrator.enqueue_many(\'[{"type": "mail"}]\')',
    "SELECT orchestrator.enqueue_alike('[{}]', '{\"type\": \"mail\"}')",
]
READS = [
    "SELECT * FROM orchestrator.tasks",
    *(f"TABLE orchestrator.{view.stem}" for view in sorted((ROOT / "schema" / "views").glob("*.sql"))),
    *(f"TABLE orchestrator.{table}" for table in ("types", "queues", "workers", "attempts", "audit")),
]
OPERATES = [
    "SELECT orchestrator.cancel(1, 'r')",
    "SELECT orchestrator.requeue(1, 'r')",
    "SELECT orchestrator.requeue_where(status => 'cancelled')",
    "UPDATE orchestrator.tasks SET priority = 75 WHERE id = 1",
    "UPDATE orchestrator.tasks SET run_at = '2999-01-01' WHERE id = 1",
    "UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = 1",
    "UPDATE orchestrator.tasks SET status = 'pending' WHERE id = 1",
    "SELECT orchestrator.pause_queue('default')",
    "SELECT orchestrator.drain_queue('default')",
    "SELECT orchestrator.resume_queue('default')",
    "SELECT orchestrator.drain_worker(id) FROM orchestrator.workers",
    "SELECT orchestrator.set_retention('default', '1 day')",
    "SELECT orchestrator.hold_after_restore('r')",
    "SELECT orchestrator.resume_after_restore('r')",
    "DELETE FROM orchestrator.tasks WHERE id = 1",
]
KEEPS_HOUSE = [
    "SELECT orchestrator.ensure_partition('2030-01-01')",
    "SELECT orchestrator.drop_old_partition()",
    "SELECT orchestrator.purge_finished('tasks_done_20300101', 0, 1, 1)",
    *(f"SELECT orchestrator.purge_{kind}(1)" for kind in KINDS),
]
EDITS = [
    "UPDATE orchestrator.tasks SET payload = '{}'",
    "UPDATE orchestrator.tasks_live SET payload = '{}'",
    "UPDATE orchestrator.tasks SET lease = 1",
    "INSERT INTO orchestrator.tasks (type, status) VALUES ('mail', 'completed')",
    "INSERT INTO orchestrator.tasks (type, lease) VALUES ('mail', 1)",
    "INSERT INTO orchestrator.tasks (type, aging_us) VALUES ('mail', 1)",
    "UPDATE orchestrator.settings SET payload_bytes_max = 1",
    "UPDATE orchestrator.settings SET keep_audit = '0'",
    "UPDATE orchestrator.queues SET state = 'paused'",
    "UPDATE orchestrator.queues SET keep_dead = '0'",
    "INSERT INTO orchestrator.queues (name, keep_dead) VALUES ('mail', '0')",
    "DELETE FROM orchestrator.audit",
    "DELETE FROM orchestrator.attempts",
    "DELETE FROM orchestrator.tasks_done",
    "DELETE FROM orchestrator.tasks_dead",
    "DELETE FROM orchestrator.idempotency_keys",
    "CREATE OR REPLACE FUNCTION orchestrator.clock() RETURNS timestamptz LANGUAGE sql AS $$ SELECT now() $$",
    "INSERT INTO orchestrator.idempotency_keys VALUES ('a', 'b', 1, now())",
    "SELECT orchestrator.take_key('a', 'b', 1, '1 s')",
    "SELECT orchestrator.enqueue_each('[]')",
    "SELECT orchestrator.set_home()",
    "DELETE FROM orchestrator.home",
    "UPDATE orchestrator.home SET since = now()",
    "TRUNCATE orchestrator.tasks",
    "CREATE TABLE orchestrator.mine (n int)",
    "UPDATE orchestrator.alembic_version SET version_num = '9'",
]
