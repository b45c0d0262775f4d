-- Which of these outcomes did an earlier try write? Asked after an outcome was sent twice because the first answer was
-- lost. A finished row keeps its lease; so does the record of a failed attempt. When a lease ended because its worker
-- was lost, the leader ended it: then the outcome is stale, though the dead letter may keep that lease.
-- In: ids, leases, pairwise. Out: the ids that were written.
-- Paths: the leaves' primary keys, attempts_task_idx. Scalar subqueries and not EXISTS: the planner may hash an EXISTS,
-- and read a whole table for it.
SELECT g.id
FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS g (id, lease)
WHERE coalesce(
    (SELECT a.outcome <> 'lost' FROM orchestrator.attempts AS a WHERE a.task_id = g.id AND a.lease = g.lease LIMIT 1),
    (SELECT true FROM orchestrator.tasks_done AS t WHERE t.id = g.id AND t.lease = g.lease LIMIT 1),
    (SELECT true FROM orchestrator.tasks_dead AS t WHERE t.id = g.id AND t.lease = g.lease LIMIT 1),
    false
)
