-- One row for each queue: its state, how many tasks wait, run and are dead letters, and how long the oldest ready task
-- has waited. A queue that only tasks name is listed too. The leader's sample is made of it (maintain/sample.sql).
-- Grouped by status first: 300,000 tasks take 110 to 150 ms, and 150 to 170 ms with a FILTER for each count. A time that
-- Python cannot load is left out: one bad row must not hide all queues.
CREATE OR REPLACE VIEW orchestrator.queue_summary
WITH (security_invoker = true) AS
WITH live AS (
    SELECT
        s.queue,
        sum(s.tasks) FILTER (WHERE s.status = 'pending')::bigint AS pending,
        sum(s.tasks) FILTER (WHERE s.status = 'scheduled')::bigint AS scheduled,
        sum(s.tasks) FILTER (WHERE s.status = 'blocked')::bigint AS blocked,
        sum(s.tasks) FILTER (WHERE s.status = 'claimed')::bigint AS claimed,
        sum(s.tasks) FILTER (WHERE s.status = 'running')::bigint AS running,
        min(s.first_at) FILTER (WHERE s.status = 'pending') AS oldest_ready_at,
        min(s.first_at) FILTER (WHERE s.status = 'scheduled') AS next_due_at
    FROM (
        SELECT
            t.queue, t.status, count(*) AS tasks,
            min(t.run_at) FILTER (WHERE t.run_at BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC') AS first_at
        FROM orchestrator.tasks_live AS t
        GROUP BY t.queue, t.status
    ) AS s
    GROUP BY s.queue
),
dead AS (
    SELECT t.queue, count(*) AS dead_letters
    FROM orchestrator.tasks_dead AS t
    GROUP BY t.queue
),
names AS (
    SELECT q.name FROM orchestrator.queues AS q
    UNION
    SELECT l.queue FROM live AS l
    UNION
    SELECT d.queue FROM dead AS d
)
SELECT
    n.name AS queue,
    coalesce(q.state, 'active') AS state,
    coalesce(l.pending, 0) AS pending,
    coalesce(l.scheduled, 0) AS scheduled,
    coalesce(l.blocked, 0) AS blocked,
    coalesce(l.claimed, 0) AS claimed,
    coalesce(l.running, 0) AS running,
    coalesce(d.dead_letters, 0) AS dead_letters,
    orchestrator.clock() - l.oldest_ready_at AS oldest_ready_age,
    l.next_due_at,
    l.oldest_ready_at
FROM names AS n
LEFT JOIN orchestrator.queues AS q ON q.name = n.name
LEFT JOIN live AS l ON l.queue = n.name
LEFT JOIN dead AS d ON d.queue = n.name
ORDER BY n.name;
