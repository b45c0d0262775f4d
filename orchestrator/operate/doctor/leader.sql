-- Out: one row: the leader that holds its beacon, or NULL; whether a task is ready or held, so that a worker is needed.
SELECT
    (SELECT format('%%s, pid %%s', l.host, l.pid) FROM orchestrator.leader AS l),
    EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.status = 'pending' AND t.lane IS NULL)
    OR EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.worker_id IS NOT NULL)
