-- The worker that leads, if its term has not expired and its beacon is not lost.
CREATE OR REPLACE VIEW orchestrator.leader
WITH (security_invoker = true) AS
SELECT w.id, w.host, w.pid, w.term, w.leader_until
FROM orchestrator.workers AS w
WHERE w.is_leader AND w.leader_until > orchestrator.clock() AND NOT orchestrator.beacon_is_lost(w.id);
