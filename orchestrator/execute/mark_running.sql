-- Mark claimed tasks as running, if their leases still hold. Behind their start, for those that last (a task that has a
-- past: before it); what is found `claimed` after a crash is taken for not begun, and gets its attempt back.
-- In: ids, leases, ages (seconds since the handler started), pairwise, sorted by id. Out: the ids that are marked, or were
-- before; one that is missing is locked by somebody, or no longer ours.
-- Locks: those rows, SKIP LOCKED: one row under a hand's open UPDATE must not hold up the others. Path: tasks_live_pkey,
-- then by ctid, as in the claim.
-- started_at is what tells the guard of hands' updates that this is a worker's write.
WITH hint AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
),
mine AS MATERIALIZED (
    SELECT held.ctid AS place, g.age
    FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[], %(ages)s::double precision[]) AS g (id, lease, age)
    JOIN orchestrator.tasks_live AS held ON held.id = g.id AND held.lease = g.lease
    WHERE held.status IN ('claimed', 'running')
    FOR UPDATE OF held SKIP LOCKED
)
UPDATE orchestrator.tasks_live AS t
SET status = 'running', started_at = greatest(t.claimed_at, orchestrator.clock() - make_interval(secs => m.age))
FROM hint, mine AS m
WHERE t.ctid = m.place
RETURNING t.id
