-- name: make_ahead
-- Make the day leaves of tasks_done for today and the week ahead. Out: their names.
-- Locks: SHARE UPDATE EXCLUSIVE on tasks_done while a leaf is missing, to the transaction's end. Statements that read
-- or finish tasks do not wait for that.
SELECT orchestrator.ensure_partition((orchestrator.clock() AT TIME ZONE 'UTC')::date + n)
FROM generate_series(0, 7) AS n

-- name: drop_old
-- Drop one day leaf that no queue keeps any longer. Out: its name, or NULL. Locks: see drop_old_partition.
SELECT orchestrator.drop_old_partition()
