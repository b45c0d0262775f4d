-- How long the probes waited for a worker, in seconds. Out: one row: how many, the median, the 95th percentile.
-- created_at is the arrival of the INSERT, so the wait includes its commit. started_at is written right before the
-- call of the handler.
SELECT
    count(*),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM t.started_at - t.created_at)::float8),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM t.started_at - t.created_at)::float8)
FROM orchestrator.tasks AS t
WHERE t.type = 'demo.probe' AND t.status = 'completed' AND t.attempt = 1
