-- Of the given outcomes, lock those rows that nobody else has locked, for the rest of the transaction; a stale
-- one counts as unlocked. In: ids, leases, pairwise, sorted by id. Out: the ids that can be written now.
-- Used only after a batch has waited too long: a hand's open bulk UPDATE keeps locks even on rows it only
-- looked at, and must never hold a whole batch up. Path: tasks_live_pkey.
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
