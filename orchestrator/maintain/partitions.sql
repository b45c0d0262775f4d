-- Make the day leaves of tasks_done for today and the week ahead. Out: their names.
-- Locks: SHARE UPDATE EXCLUSIVE on tasks_done for a leaf that is missing, to the transaction's end; nobody who reads
-- or finishes waits for that.
SELECT orchestrator.ensure_partition((orchestrator.clock() AT TIME ZONE 'UTC')::date + n)
FROM generate_series(0, 7) AS n
