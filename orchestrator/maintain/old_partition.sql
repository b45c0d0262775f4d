-- Drop one day leaf that no queue keeps any longer. Out: its name, or NULL. Locks: see drop_old_partition.
SELECT orchestrator.drop_old_partition()
