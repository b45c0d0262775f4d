-- Make up to `batch_size` scheduled tasks pending that are due, whatever their queue.
-- Out: one row: how many, their queues, in how many seconds the next one is due (NULL: none is waiting), and whether
-- any task is ready in these `queues`: a worker that polls need not claim to learn that none is.
-- Locks: those rows, SKIP LOCKED, so that all workers may sweep at once. Path: tasks_live_due_idx.
-- run_at stays, and with it the place in the order. By that the guard of manual updates recognises a worker's update.
WITH hint AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
),
due AS (
    UPDATE orchestrator.tasks_live AS t
    SET status = 'pending'
    FROM hint
    WHERE t.ctid = ANY (ARRAY(
        SELECT late.ctid
        FROM orchestrator.tasks_live AS late
        WHERE late.status = 'scheduled' AND late.run_at <= orchestrator.clock()
        ORDER BY late.run_at
        LIMIT %(batch_size)s
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING t.queue
)
SELECT
    (SELECT count(*) FROM due) AS moved,
    (SELECT array_agg(DISTINCT due.queue) FROM due) AS queues,
    (
        SELECT date_part('epoch', next.run_at - orchestrator.clock())
        FROM orchestrator.tasks_live AS next
        WHERE next.status = 'scheduled' AND next.run_at > orchestrator.clock()
        ORDER BY next.run_at
        LIMIT 1
    ) AS next_due_seconds,
    EXISTS (SELECT FROM due WHERE due.queue = ANY (%(queues)s::text[]))
    OR EXISTS (
        SELECT
        FROM unnest(%(queues)s::text[]) AS wanted (queue)
        CROSS JOIN LATERAL (
            SELECT FROM orchestrator.tasks_live AS t WHERE t.queue = wanted.queue AND t.status = 'pending' AND t.lane IS NULL LIMIT 1
        ) AS found
    ) AS ready
