-- Name at most `most` attempts that timeouts.sql would end, in any order: they run too long beyond their timeout.
-- In: margin_seconds, most. Out: the tasks' ids. Bounded as there: no row may make the arithmetic overflow for all.
-- Locks: none. Path: tasks_live_worker_idx.
SELECT t.id
FROM orchestrator.tasks_live AS t
WHERE t.worker_id >= '00000000-0000-0000-0000-000000000000' AND t.status = 'running'
    AND t.timeout > interval '0'
    AND CASE
        WHEN t.started_at BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'
        THEN t.started_at + least(t.timeout, interval '100 years')
            < orchestrator.clock() - make_interval(secs => %(margin_seconds)s)
    END
LIMIT %(most)s
