-- The claimed and running tasks with their worker's host and pid, the longest first.
CREATE OR REPLACE VIEW orchestrator.running_tasks
WITH (security_invoker = true) AS
SELECT
    t.id,
    t.queue,
    t.type,
    t.status,
    t.attempt,
    t.max_attempts,
    t.claimed_at,
    t.started_at,
    orchestrator.clock() - t.claimed_at AS held_for,
    t.timeout,
    t.progress,
    t.worker_id,
    w.host,
    w.pid,
    orchestrator.clock() - w.beat_at AS last_beat_age
FROM orchestrator.tasks_live AS t
LEFT JOIN orchestrator.workers AS w ON w.id = t.worker_id
WHERE t.worker_id IS NOT NULL
ORDER BY t.claimed_at;
