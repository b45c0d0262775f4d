-- The workers that are alive, as is_alive() defines it. It searches pg_locks for each worker.
CREATE OR REPLACE VIEW orchestrator.live_workers
WITH (security_invoker = true) AS
SELECT
    w.id,
    w.host,
    w.pid,
    w.version,
    w.queues,
    w.capacity,
    w.state,
    (SELECT count(*) FROM orchestrator.tasks_live AS t WHERE t.worker_id = w.id) AS holds,
    w.started_at,
    orchestrator.clock() - w.beat_at AS last_beat_age,
    w.is_leader
FROM orchestrator.workers AS w
WHERE w.state IN ('running', 'draining') AND orchestrator.is_alive(w.id)
ORDER BY w.host, w.pid;
