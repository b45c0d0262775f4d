-- One row for each queue: its state, how many tasks wait, run and are dead letters, and how long the oldest ready task
-- has waited. A queue that only tasks name is listed too.
CREATE OR REPLACE VIEW orchestrator.queue_summary
WITH (security_invoker = true) AS
WITH live AS (
    SELECT
        t.queue,
        count(*) FILTER (WHERE t.status = 'pending') AS pending,
        count(*) FILTER (WHERE t.status = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE t.status = 'blocked') AS blocked,
        count(*) FILTER (WHERE t.status = 'claimed') AS claimed,
        count(*) FILTER (WHERE t.status = 'running') AS running,
        min(t.run_at) FILTER (WHERE t.status = 'pending') AS oldest_ready_at,
        min(t.run_at) FILTER (WHERE t.status = 'scheduled') AS next_due_at
    FROM orchestrator.tasks_live AS t
    GROUP BY t.queue
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
    l.next_due_at
FROM names AS n
LEFT JOIN orchestrator.queues AS q ON q.name = n.name
LEFT JOIN live AS l ON l.queue = n.name
LEFT JOIN dead AS d ON d.queue = n.name
ORDER BY n.name;
