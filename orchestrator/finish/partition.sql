-- Make today's leaf of tasks_done, for an outcome that found none.
SELECT orchestrator.ensure_partition()
