-- Add what this worker has counted to the statistics of the minute and the hour. In: rows, as JSON text.
-- Locks and paths: those of the function.
SELECT orchestrator.record_statistics(%(rows)s::jsonb)
