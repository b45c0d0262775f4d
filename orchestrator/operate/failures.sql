-- The faults among the newest failures, the most frequent first. In: newest, the number of failures to read.
SELECT f.group_id, f.type, f.error_class, f.message, f.dead_letters, f.retrying, f.first_seen, f.last_seen, f.sample_id
FROM orchestrator.failure_groups(%(newest)s) AS f
