-- Lock the rows of the given outcomes that no other transaction has locked, for the rest of this transaction. A stale
-- outcome counts as unlocked. In: ids, leases, pairwise, sorted by id. Out: the ids that can be written now.
-- Used only after a batch has waited too long: an operator's open bulk UPDATE keeps locks even on rows that it only
-- looked at, and must never hold up a whole batch. Path: tasks_live_pkey.
WITH given AS (
    SELECT g.id, g.lease
    FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS g (id, lease)
),
free AS (
    SELECT t.id
    FROM orchestrator.tasks_live AS t
    JOIN given AS g ON g.id = t.id AND g.lease = t.lease
    ORDER BY t.id
    FOR UPDATE OF t SKIP LOCKED
)
SELECT f.id FROM free AS f
UNION ALL
SELECT g.id
FROM given AS g
WHERE NOT EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.id = g.id AND t.lease = g.lease)
