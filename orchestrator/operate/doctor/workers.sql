-- name: workers
-- The live workers, the oldest first. Out: host, pid, version, queues, whether it leads, seconds since it started.
SELECT w.host, w.pid, w.version, w.queues, w.is_leader, date_part('epoch', orchestrator.clock() - w.started_at)
FROM orchestrator.live_workers AS w
ORDER BY w.started_at

-- name: leader
-- Out: one row: the leader that holds its beacon, or NULL; whether a task is ready or held, so that a worker is needed.
SELECT
    (SELECT format('%%s, pid %%s', l.host, l.pid) FROM orchestrator.leader AS l),
    EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.status = 'pending' AND t.lane IS NULL)
    OR EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.worker_id IS NOT NULL)

-- name: blocked
-- The workers whose event loop was blocked at their last beat: the live ones, and those declared dead for it within the
-- last hour. Out: host, pid, for how many seconds by the last beat, whether it is alive.
SELECT w.host, w.pid, date_part('epoch', w.beat_at - w.blocked_at), w.state IN ('running', 'draining')
FROM orchestrator.workers AS w
WHERE w.blocked_at IS NOT NULL AND w.state <> 'stopped' AND w.beat_at > orchestrator.clock() - interval '1 hour'
ORDER BY w.host, w.pid
