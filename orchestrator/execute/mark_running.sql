-- Mark claimed tasks `running`, if their leases still hold. Attempts that last are marked after their start; tasks that
-- with a loss or a put-back, before it. A task that is `claimed` after a crash counts as not begun, and its
-- attempt is not counted.
-- In: ids, leases, ages (seconds since the handler started), pairwise, sorted by id. Out: the ids that are marked now
-- or were marked before; a missing one is locked by another transaction, or its lease is lost.
-- Locks: those rows, SKIP LOCKED: one row under an operator's open UPDATE must not delay the others. Path:
-- tasks_live_pkey, then by ctid, as in the claim.
-- started_at shows the guard of manual updates that this is a worker's write.
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
