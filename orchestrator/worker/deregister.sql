-- A worker ends, having given everything back. If it has not (it failed, or the database was away when it stopped),
-- its row stays among the living until the beat is missed: a dead worker's tasks are taken back, a stopped one's not.
-- Path: tasks_live_worker_idx.
UPDATE orchestrator.workers AS w
SET state = 'stopped', idle_until = NULL, beacon = NULL, beat_at = orchestrator.clock()
WHERE w.id = %(id)s AND w.state IN ('running', 'draining')
    AND NOT EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.worker_id = w.id)
