-- name: ready
-- Make scheduled tasks pending that are due now or by a given moment. Return the queues that hold ready tasks, in the
-- order of their first tasks. In: queues, or NULL for all; ahead, an interval, or NULL; until, a moment, or NULL.
-- Out: one row a queue. Locks: the rows that become pending. As in sweep.sql run_at stays, and so does the position.
WITH due AS (
    UPDATE orchestrator.tasks_live AS t
    SET status = 'pending'
    WHERE t.status = 'scheduled'
        AND t.run_at <= greatest(orchestrator.clock(), %(until)s::timestamptz, orchestrator.clock() +
        %(ahead)s::interval) AND (%(queues)s::text[] IS NULL OR t.queue = ANY (%(queues)s::text[]))
    RETURNING t.queue, t.position, t.id
),
ready AS (
    SELECT queue, position, id FROM due
    UNION ALL
    SELECT t.queue, t.position, t.id
    FROM orchestrator.tasks_live AS t
    WHERE t.status = 'pending' AND (%(queues)s::text[] IS NULL OR t.queue = ANY (%(queues)s::text[]))
)
SELECT first.queue
FROM (SELECT DISTINCT ON (r.queue) r.queue, r.position, r.id FROM ready AS r ORDER BY r.queue, r.position, r.id) AS
first ORDER BY first.position, first.id

-- name: register
-- Register run_tasks() as a worker while it runs: only living workers may claim. In: id, host, pid, version.
-- Its row names no queue, so that no other worker counts on it.
INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity)
VALUES (%(id)s, %(host)s, %(pid)s, %(version)s, '{}', 1)

-- name: deregister
-- Mark the worker of run_tasks() as stopped. In: id.
UPDATE orchestrator.workers AS w
SET state = 'stopped', beat_at = orchestrator.clock()
WHERE w.id = %(id)s
