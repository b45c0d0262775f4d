-- Tell whether any attempt goes on so long beyond its timeout that timeouts.sql would end it. Out: one row, one boolean.
-- Locks: none. Path: tasks_live_worker_idx.
SELECT EXISTS (
    SELECT
    FROM orchestrator.tasks_live AS t
    WHERE t.worker_id >= '00000000-0000-0000-0000-000000000000' AND t.status = 'running'
        AND t.timeout > interval '0'
        AND t.started_at + t.timeout < orchestrator.clock() - make_interval(secs => %(margin_seconds)s)
)
