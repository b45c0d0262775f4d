-- Mark the worker of run_tasks() as stopped. In: id.
UPDATE orchestrator.workers AS w
SET state = 'stopped', beat_at = orchestrator.clock()
WHERE w.id = %(id)s
