-- The throughput of the fast tasks; the others ran among them. Out: one row: how many, and the seconds from the first
-- start to the last end.
SELECT count(*), extract(epoch FROM max(t.finished_at) - min(t.started_at))::float8
FROM orchestrator.tasks AS t
WHERE t.type = 'demo.fast' AND t.status = 'completed'
