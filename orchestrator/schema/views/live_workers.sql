-- The workers that are alive: a beat within the last 30 seconds, and no beacon that is out. For each it looks through
-- pg_locks; readers, who may not see beacons, go by the beat alone.
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
WHERE w.state IN ('running', 'draining') AND w.beat_at > orchestrator.clock() - interval '30 seconds'
    AND NOT orchestrator.beacon_is_out(w.id)
ORDER BY w.host, w.pid;
