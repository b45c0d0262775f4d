-- The queues with ready tasks, at most 1000, read by jumps through the index. Out: one row for each queue: name; state;
-- the actor and the reason of that state; for how many seconds it holds; how many seconds the next task has waited;
-- whether a live worker that claims serves it; the statement that resumes it. Path: tasks_live_claim_idx.
WITH RECURSIVE named AS (
    (SELECT t.queue FROM orchestrator.tasks_live AS t WHERE t.status = 'pending' AND t.lane IS NULL ORDER BY t.queue LIMIT 1)
    UNION ALL
    SELECT (
        SELECT t.queue FROM orchestrator.tasks_live AS t WHERE t.status = 'pending' AND t.lane IS NULL AND t.queue > n.queue ORDER BY t.queue LIMIT 1
    )
    FROM named AS n
    WHERE n.queue IS NOT NULL
),
live AS (
    SELECT w.queues FROM orchestrator.live_workers AS w WHERE w.state = 'running'
)
SELECT
    n.queue, coalesce(q.state, 'active'), q.state_by, q.state_reason, date_part('epoch', orchestrator.clock() - q.state_since),
    (
        SELECT date_part('epoch', orchestrator.clock() - t.run_at)
        FROM orchestrator.tasks_live AS t
        WHERE t.queue = n.queue AND t.status = 'pending' AND t.lane IS NULL
        ORDER BY t.position, t.id
        LIMIT 1
    ),
    EXISTS (SELECT FROM live AS c WHERE n.queue = ANY (c.queues)),
    format('SELECT orchestrator.resume_queue(%%L);', n.queue)
FROM named AS n
LEFT JOIN orchestrator.queues AS q ON q.name = n.queue
WHERE n.queue IS NOT NULL
LIMIT 1000
