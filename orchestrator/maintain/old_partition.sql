-- Drop one day leaf that no queue keeps any more. Out: its name, or NULL. Locks: see drop_old_partition.
SELECT orchestrator.drop_old_partition()
