-- Make today's leaf of tasks_done, for a finish that found none.
SELECT orchestrator.ensure_partition()
