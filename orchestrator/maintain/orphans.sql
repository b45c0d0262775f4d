-- Name at most `most` tasks that are held by a worker which does not live, or has no row. In any order, and another one
-- each time: those that cannot be taken back may be many. In: most. Out: the tasks' ids. Locks: none.
-- Path: tasks_live_worker_idx.
SELECT t.id
FROM orchestrator.tasks_live AS t
LEFT JOIN orchestrator.workers AS w ON w.id = t.worker_id
WHERE t.worker_id >= '00000000-0000-0000-0000-000000000000' AND coalesce(w.state, 'dead') NOT IN ('running', 'draining')
ORDER BY random()
LIMIT %(most)s
