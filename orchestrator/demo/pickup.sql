-- How long the probes waited for a worker, in seconds. Out: one row: how many, the median, the 95th percentile.
-- created_at is when the INSERT arrived, so its own commit is part of the wait; started_at is the write right before
-- the handler is called.
SELECT
    count(*),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM t.started_at - t.created_at)::float8),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM t.started_at - t.created_at)::float8)
FROM orchestrator.tasks AS t
WHERE t.type = 'demo.probe' AND t.status = 'completed' AND t.attempt = 1
