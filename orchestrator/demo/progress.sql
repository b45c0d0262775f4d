-- The demo's progress. Out: one row: workers that serve; tasks that are finished, ready, not yet due, held by a worker.
-- Path: counts all tasks, which are some thousand rows in a demo.
SELECT
    (SELECT count(*) FROM orchestrator.workers AS w WHERE w.state = 'running') AS workers,
    count(*) FILTER (WHERE t.status IN ('completed', 'cancelled', 'dead_letter')) AS finished,
    count(*) FILTER (WHERE t.status = 'pending') AS ready,
    count(*) FILTER (WHERE t.status = 'scheduled') AS scheduled,
    count(*) FILTER (WHERE t.status IN ('claimed', 'running')) AS held
FROM orchestrator.tasks AS t
