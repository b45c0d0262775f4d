-- Name at most `most` tasks whose worker does not live, or has no row. They come in random order, and differ each time:
-- there may be many that cannot be taken back. In: most. Out: the tasks' ids. Locks: none.
-- Path: tasks_live_worker_idx.
SELECT t.id
FROM orchestrator.tasks_live AS t
LEFT JOIN orchestrator.workers AS w ON w.id = t.worker_id
WHERE t.worker_id >= '00000000-0000-0000-0000-000000000000' AND coalesce(w.state, 'dead') NOT IN ('running', 'draining')
ORDER BY random()
LIMIT %(most)s
