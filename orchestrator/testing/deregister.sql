-- The drain is over: its worker is one that has stopped. In: id.
UPDATE orchestrator.workers AS w
SET state = 'stopped', beat_at = orchestrator.clock()
WHERE w.id = %(id)s
