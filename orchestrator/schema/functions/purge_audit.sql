-- Delete at most `at_most` records of audit that are older than settings.keep_audit; returns how many. A role
-- that may call this can delete nothing else by it. Locks: the rows, SKIP LOCKED. Path: audit_at_idx.
CREATE OR REPLACE FUNCTION orchestrator.purge_audit(at_most integer DEFAULT 1000)
RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    WITH due AS (
        SELECT u.id
        FROM orchestrator.audit AS u
        WHERE u.at < (SELECT orchestrator.kept_since(s.keep_audit) FROM orchestrator.settings AS s)
        ORDER BY u.at
        LIMIT orchestrator.row_limit(at_most)
        FOR UPDATE SKIP LOCKED
    ),
    gone AS (
        DELETE FROM orchestrator.audit AS u WHERE u.id = ANY (ARRAY(SELECT d.id FROM due AS d)) RETURNING u.id
    )
    SELECT count(*)::integer FROM gone AS g
$$;
