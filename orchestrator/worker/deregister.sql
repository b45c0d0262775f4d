-- Mark a worker stopped that has released all its tasks. If it has not (it failed, or the database was away when it
-- stopped), its row keeps its state until the beat is missed: then the worker is declared dead and its tasks are taken
-- back. Tasks of a stopped worker are not.
-- Path: tasks_live_worker_idx.
UPDATE orchestrator.workers AS w
SET state = 'stopped', idle_until = NULL, beacon = NULL, beat_at = orchestrator.clock()
WHERE w.id = %(id)s AND w.state IN ('running', 'draining')
    AND NOT EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.worker_id = w.id)
