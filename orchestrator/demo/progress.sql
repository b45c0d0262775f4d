-- How far the demo is. Out: one row: workers that serve, tasks finished, ready, not yet due, in a worker's hands.
-- Path: counts some thousand rows, which is what a demo has.
SELECT
    (SELECT count(*) FROM orchestrator.workers AS w WHERE w.state = 'running') AS workers,
    count(*) FILTER (WHERE t.status IN ('completed', 'cancelled', 'dead_letter')) AS finished,
    count(*) FILTER (WHERE t.status = 'pending') AS ready,
    count(*) FILTER (WHERE t.status = 'scheduled') AS scheduled,
    count(*) FILTER (WHERE t.status IN ('claimed', 'running')) AS held
FROM orchestrator.tasks AS t
