-- Show how far running tasks have come. In: ids, leases, values (JSON text), pairwise, sorted by id. Out: the tasks, with
-- their leases, whose row another transaction has locked or has just changed: their value is not written, and can be
-- sent again. A void lease changes nothing and does not come back: an attempt that has ended needs no report.
-- Locks: those rows, SKIP LOCKED: a lock on one keeps no other report waiting.
-- Path: tasks_live_pkey, then by ctid, as in the claim. Progress is a hint, as the claim is: the commit does not wait
-- for the disk.
WITH hint AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
),
written AS (
    UPDATE orchestrator.tasks_live AS t
    SET progress = g.value::jsonb
    FROM hint, unnest(%(ids)s::bigint[], %(leases)s::bigint[], %(values)s::text[]) AS g (id, lease, value)
    WHERE t.id = g.id AND t.lease = g.lease
        AND t.ctid = ANY (ARRAY(
            SELECT mine.ctid
            FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS k (id, lease)
            JOIN orchestrator.tasks_live AS mine ON mine.id = k.id AND mine.lease = k.lease
            FOR UPDATE OF mine SKIP LOCKED
        ))
    RETURNING t.id
)
SELECT k.id, k.lease
FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS k (id, lease)
JOIN orchestrator.tasks_live AS t ON t.id = k.id AND t.lease = k.lease
WHERE NOT EXISTS (SELECT FROM written AS w WHERE w.id = k.id)
