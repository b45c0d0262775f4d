-- name: copy
-- The contents of a copied database. Out: one row: claimed and running tasks, workers that count as alive there, the
-- leader, pending and scheduled tasks.
SELECT
    count(*) FILTER (WHERE t.status = 'claimed') AS claimed,
    count(*) FILTER (WHERE t.status = 'running') AS running,
    (SELECT count(*) FROM orchestrator.workers AS w WHERE w.state IN ('running', 'draining')) AS workers,
    (SELECT format('%s, pid %s', w.host, w.pid) FROM orchestrator.workers AS w WHERE w.is_leader) AS leader,
    count(*) FILTER (WHERE t.status = 'pending') AS pending,
    count(*) FILTER (WHERE t.status = 'scheduled') AS scheduled
FROM orchestrator.tasks_live AS t

-- name: resume
-- Let tasks run in a copied database. In: reason. Out: one row, that of orchestrator.resume_after_restore().
SELECT r.claimed, r.running, r.workers FROM orchestrator.resume_after_restore(%(reason)s) AS r
