-- Out: one row: who leads, and has its beacon lit, or NULL; and whether anything is ready or held, for which a worker would be needed.
SELECT
    (SELECT format('%%s, pid %%s', l.host, l.pid) FROM orchestrator.leader AS l),
    EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.status = 'pending' AND t.lane IS NULL)
    OR EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.worker_id IS NOT NULL)
