-- After an outcome was sent twice, because the first answer was lost: which of these were written the first
-- time? A finished row keeps its lease, and so does the record of a failed attempt. A lease that ended with a lost
-- worker was ended by somebody else: then the outcome is stale, though the dead letter may bear its lease.
-- In: ids, leases, pairwise. Out: the ids that were written.
-- Paths: the leaves' primary keys, attempts_task_idx. Scalar subqueries and not EXISTS: of those the planner may hash
-- one, and read a whole table for it.
SELECT g.id
FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS g (id, lease)
WHERE coalesce(
    (SELECT a.outcome <> 'lost' FROM orchestrator.attempts AS a WHERE a.task_id = g.id AND a.lease = g.lease LIMIT 1),
    (SELECT true FROM orchestrator.tasks_done AS t WHERE t.id = g.id AND t.lease = g.lease LIMIT 1),
    (SELECT true FROM orchestrator.tasks_dead AS t WHERE t.id = g.id AND t.lease = g.lease LIMIT 1),
    false
)
