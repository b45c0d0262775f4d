-- Whether any worker is at work on this database. Out: one row.
-- Path: workers_live_idx.
SELECT EXISTS (
    SELECT
    FROM orchestrator.workers AS w
    WHERE w.state IN ('running', 'draining') AND w.beat_at > orchestrator.clock() - interval '1 minute'
)
