-- The failures, grouped by fault, the most frequent first: failure_groups() with its default limit.
CREATE OR REPLACE VIEW orchestrator.failures
WITH (security_invoker = true) AS
SELECT f.group_id, f.type, f.error_class, f.message, f.dead_letters, f.retrying, f.first_seen, f.last_seen, f.sample_id
FROM orchestrator.failure_groups() AS f;
