-- Mark claimed tasks as running, before their handlers start, if their leases still hold: what is found
-- `claimed` after a crash has not begun, and gets its attempt back.
-- In: ids, leases, pairwise, sorted by id. Out: the ids that may start; the same again when the first answer
-- was lost. Path: tasks_live_pkey.
-- started_at is what tells the guard of hands' updates that this is a worker's write.
WITH hint AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
),
given AS (
    SELECT g.id, g.lease
    FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS g (id, lease), hint
)
UPDATE orchestrator.tasks_live AS t
SET status = 'running', started_at = orchestrator.clock()
FROM given AS g
WHERE t.id = g.id AND t.lease = g.lease AND t.status IN ('claimed', 'running')
RETURNING t.id
