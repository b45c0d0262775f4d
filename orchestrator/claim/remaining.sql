-- Tell whether these queues still hold tasks that `--until-empty` must wait for: ready, held by a worker, or waiting
-- for a retry. Future tasks that have not run yet, paused queues, and tasks that wait for a worker that knows their
-- type do not count. Out: one row, one boolean.
-- Paths: tasks_live_claim_idx, tasks_live_worker_idx, tasks_live_due_idx (its whole length when no task waits for a
-- retry; so this question comes last, and only a worker that has found no task asks it).
WITH wanted AS (
    SELECT w.queue
    FROM unnest(%(queues)s::text[]) AS w (queue)
    LEFT JOIN orchestrator.queues AS q ON q.name = w.queue
    WHERE coalesce(q.state, 'active') <> 'paused'
)
SELECT
    EXISTS (
        SELECT FROM wanted AS w
        JOIN orchestrator.tasks_live AS t ON t.queue = w.queue AND t.status = 'pending' AND t.lane IS NULL
    )
    OR EXISTS (
        SELECT FROM orchestrator.tasks_live AS t
        WHERE t.worker_id IS NOT NULL AND t.queue IN (SELECT w.queue FROM wanted AS w)
    )
    OR EXISTS (
        SELECT FROM orchestrator.tasks_live AS t
        WHERE t.status = 'scheduled' AND t.attempt > 0 AND NOT coalesce(t.error ? 'put_back', false) AND t.queue IN (SELECT w.queue FROM wanted AS w)
    )
