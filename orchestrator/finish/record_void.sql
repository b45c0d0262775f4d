-- Record executions whose lease was void when they ended: the task was given to another worker, cancelled, requeued or
-- deleted meanwhile, or a server crash forgot the claim. The record is no outcome: the task is not touched.
-- In: ids, leases, attempts, queues, types, ages (µs since the handler started), reasons, pairwise; worker_id.
-- The leader, or the trigger on a manual change, may already have recorded the execution when it took the lease.
-- attempts_task_idx keeps one record for each lease; the first one stays. When the leader ends an attempt by timeout,
-- its record keeps no lease. A completed attempt has its row in tasks_done. Scalar subqueries, as in recorded.sql.
-- Locks: none. Paths: the leaves' primary keys, attempts_task_idx.
INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type, error, lease, worker_id, started_at)
SELECT g.id, g.attempt, 'lost', g.queue, g.type,
    jsonb_build_object(
        'class', 'LeaseLost',
        'message', format('worker %%s ran this, and had lost the lease when it ended: %%s', %(worker_id)s::uuid, g.reason),
        'traceback', ''
    ),
    g.lease, %(worker_id)s::uuid, orchestrator.clock() - g.age * interval '1 microsecond'
FROM unnest(
    %(ids)s::bigint[], %(leases)s::bigint[], %(attempts)s::smallint[], %(queues)s::text[], %(types)s::text[],
    %(ages)s::bigint[], %(reasons)s::text[]
) AS g (id, lease, attempt, queue, type, age, reason)
WHERE coalesce(
    (SELECT false FROM orchestrator.tasks_done AS t WHERE t.id = g.id AND t.lease = g.lease LIMIT 1),
    (
        SELECT false FROM orchestrator.attempts AS a
        WHERE a.task_id = g.id AND a.lease IS NULL AND a.attempt = g.attempt AND a.worker_id = %(worker_id)s::uuid
        LIMIT 1
    ),
    true
)
ON CONFLICT (task_id, lease) DO NOTHING
