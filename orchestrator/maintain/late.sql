-- The living whose beat is older than `late_after_seconds`, and when they last beat. Locks: none. Path: workers_live_idx.
SELECT w.id, w.beat_at
FROM orchestrator.workers AS w
WHERE w.state IN ('running', 'draining')
    AND w.beat_at < orchestrator.clock() - make_interval(secs => %(late_after_seconds)s)
