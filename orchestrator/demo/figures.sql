-- name: progress
-- The demo's progress. Out: one row: workers that serve; tasks that are finished, ready, not yet due, held by a worker.
-- Path: counts all tasks, which are some thousand rows in a demo.
SELECT
    (SELECT count(*) FROM orchestrator.workers AS w WHERE w.state = 'running') AS workers,
    count(*) FILTER (WHERE t.status IN ('completed', 'cancelled', 'dead_letter')) AS finished,
    count(*) FILTER (WHERE t.status = 'pending') AS ready,
    count(*) FILTER (WHERE t.status = 'scheduled') AS scheduled,
    count(*) FILTER (WHERE t.status IN ('claimed', 'running')) AS held
FROM orchestrator.tasks AS t

-- name: tally
-- The results of the tasks. Out: one row per type: how many by status, and how many failed attempts.
SELECT
    t.type,
    count(*) AS tasks,
    count(*) FILTER (WHERE t.status = 'completed') AS completed,
    count(*) FILTER (WHERE t.status = 'dead_letter') AS dead_letters,
    count(*) FILTER (WHERE t.status NOT IN ('completed', 'dead_letter')) AS others,
    (SELECT count(*) FROM orchestrator.attempts AS a WHERE a.type = t.type AND a.outcome NOT IN ('released', 'snoozed')) AS failed_attempts
FROM orchestrator.tasks AS t
GROUP BY t.type

-- name: pickup
-- How long the probes waited for a worker, in seconds. Out: one row: how many, the median, the 95th percentile.
-- created_at is the arrival of the INSERT, so the wait includes its commit. started_at is written right before the
-- call of the handler.
SELECT
    count(*),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM t.started_at - t.created_at)::float8),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM t.started_at - t.created_at)::float8)
FROM orchestrator.tasks AS t
WHERE t.type = 'demo.probe' AND t.status = 'completed' AND t.attempt = 1

-- name: throughput
-- The throughput of the fast tasks; the others ran among them. Out: one row: how many, and the seconds from the first
-- start to the last end.
SELECT count(*), extract(epoch FROM max(t.finished_at) - min(t.started_at))::float8
FROM orchestrator.tasks AS t
WHERE t.type = 'demo.fast' AND t.status = 'completed'

-- name: dead_letter
-- The id of the oldest dead letter, for the suggested statements. Out: no row or one.
SELECT d.id
FROM orchestrator.dead_letters AS d
ORDER BY d.id
LIMIT 1
