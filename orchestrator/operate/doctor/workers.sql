-- The live workers, the oldest first. Out: host, pid, version, queues, whether it leads, seconds since it started.
SELECT w.host, w.pid, w.version, w.queues, w.is_leader, date_part('epoch', orchestrator.clock() - w.started_at)
FROM orchestrator.live_workers AS w
ORDER BY w.started_at
