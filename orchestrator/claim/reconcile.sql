-- Give back, uncharged and in its old place, what the database says is this worker's and it does not hold.
-- In: worker_id; ids and leases, pairwise, of all it holds, outcomes on their way included. Out: their ids.
-- Locks: those rows, SKIP LOCKED. Path: tasks_live_worker_idx. Nobody else writes rows of a living worker but
-- hands, who clear the lease, and then the row is no longer this worker's. id + 0: or a plan kept while the table
-- was empty reads the whole primary key, for the order or for a merge.
UPDATE orchestrator.tasks_live AS t
SET status = 'pending',
    lease = NULL,
    worker_id = NULL,
    attempt = t.attempt - 1
WHERE t.ctid = ANY (ARRAY(
    SELECT mine.ctid
    FROM orchestrator.tasks_live AS mine
    WHERE mine.worker_id = %(worker_id)s
        AND NOT EXISTS (
            SELECT
            FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS held (id, lease)
            WHERE held.id = mine.id + 0 AND held.lease = mine.lease
        )
    ORDER BY mine.id + 0
    FOR UPDATE SKIP LOCKED
))
RETURNING t.id
