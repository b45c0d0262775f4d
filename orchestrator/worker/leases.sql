-- Compare the tasks that a worker holds with those that the database holds in its name.
-- In: id; ids and leases, pairwise, of all that the worker holds. Out: rows. lost: the worker holds the task and its
-- lease is void, with the reason. Not lost: a ghost, which only the database holds: its claim's answer was lost or is
-- on its way.
-- Locks: none. Paths: tasks_live_pkey, tasks_live_worker_idx. id + 0: without it a plan kept from when the table was
-- empty reads the whole primary key for a merge.
WITH given AS MATERIALIZED (
    SELECT g.id, g.lease FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS g (id, lease)
)
SELECT true AS lost, g.id, g.lease, NULL AS queue, NULL AS type, NULL AS attempt, coalesce(
        (SELECT 'requeued, it is ' || t.status FROM orchestrator.tasks_live AS t WHERE t.id = g.id),
        (SELECT t.status FROM orchestrator.tasks AS t WHERE t.id = g.id LIMIT 1),
        'deleted'
    ) AS reason
FROM given AS g
WHERE NOT coalesce((SELECT t.lease = g.lease FROM orchestrator.tasks_live AS t WHERE t.id = g.id), false)
UNION ALL
(
    SELECT false, mine.id, mine.lease, mine.queue, mine.type, mine.attempt, NULL
    FROM orchestrator.tasks_live AS mine
    WHERE mine.worker_id = %(id)s
        AND NOT EXISTS (SELECT FROM given AS g WHERE g.id = mine.id + 0 AND g.lease = mine.lease)
    LIMIT 1000
)
