-- Tell whether these queues still hold work that `--until-empty` must wait for: ready, held by a worker, or
-- waiting for a retry. First-time future tasks, paused queues, and what waits for a worker that
-- knows its type do not count. Out: one row, one boolean.
-- Paths: tasks_live_claim_idx, tasks_live_worker_idx, tasks_live_due_idx (its whole length when nothing waits
-- for a retry, which is why it is asked last and only by a worker that has found nothing to do).
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
