-- A worker ends, having given everything back.
UPDATE orchestrator.workers AS w
SET state = 'stopped', idle_until = NULL, beat_at = orchestrator.clock()
WHERE w.id = %(id)s AND w.state IN ('running', 'draining')
