-- Make the day leaves of tasks_done for today and the week ahead. Out: their names.
SELECT orchestrator.ensure_partition((orchestrator.clock() AT TIME ZONE 'UTC')::date + n)
FROM generate_series(0, 7) AS n
