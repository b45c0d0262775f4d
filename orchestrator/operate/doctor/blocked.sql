-- The workers whose event loop was blocked at their last beat: the live ones, and those declared dead for it within the
-- last hour. Out: host, pid, for how many seconds by the last beat, whether it is alive.
SELECT w.host, w.pid, date_part('epoch', w.beat_at - w.blocked_at), w.state IN ('running', 'draining')
FROM orchestrator.workers AS w
WHERE w.blocked_at IS NOT NULL AND w.state <> 'stopped' AND w.beat_at > orchestrator.clock() - interval '1 hour'
ORDER BY w.host, w.pid
