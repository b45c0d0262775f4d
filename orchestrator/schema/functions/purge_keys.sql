-- Delete at most `at_most` idempotency keys whose window is over; returns how many. take_key already treats them as
-- free. Locks: the keys, SKIP LOCKED: it skips a key that an enqueue is just taking, and an enqueue that waits for this
-- finds no row and writes its own. Path: idempotency_keys_expires_idx.
CREATE OR REPLACE FUNCTION orchestrator.purge_keys(at_most integer DEFAULT 1000)
RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    WITH gone AS (
        -- By ctid, which is safe for locked rows: the primary key has two columns.
        DELETE FROM orchestrator.idempotency_keys AS k
        WHERE k.ctid = ANY (ARRAY(
            SELECT d.ctid
            FROM orchestrator.idempotency_keys AS d
            WHERE d.expires_at <= orchestrator.clock()
            ORDER BY d.expires_at
            LIMIT orchestrator.row_limit(at_most)
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING k.task_id
    )
    SELECT count(*)::integer FROM gone AS g
$$;
