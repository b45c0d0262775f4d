-- Mark claimed tasks as running, before their handlers start, if their leases still hold: what is found
-- `claimed` after a crash has not begun, and gets its attempt back.
-- In: ids, leases, pairwise, sorted by id. Out: the ids that may start; the same again when the first answer
-- was lost. Locks: those rows, SKIP LOCKED: one row under a hand's open UPDATE must not hold up the start of the
-- others. Path: tasks_live_pkey, then by ctid, as in the claim.
-- started_at is what tells the guard of hands' updates that this is a worker's write.
WITH hint AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
)
UPDATE orchestrator.tasks_live AS t
SET status = 'running', started_at = orchestrator.clock()
FROM hint
WHERE t.ctid = ANY (ARRAY(
    SELECT mine.ctid
    FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS g (id, lease)
    JOIN orchestrator.tasks_live AS mine ON mine.id = g.id AND mine.lease = g.lease
    WHERE mine.status IN ('claimed', 'running')
    FOR UPDATE OF mine SKIP LOCKED
))
RETURNING t.id
