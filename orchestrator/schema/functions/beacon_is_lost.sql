-- Whether a worker has lost its beacon, though its row says that it holds one: its process has ended, or has lost its
-- LISTEN session. Seconds later the leader takes back its tasks; its beat would be missed only after its dead_after.
-- This reads pg_locks and takes no lock, unlike the leader (maintain/missing_workers.sql). False where the missing lock
-- proves nothing: on a server that has just started, on a standby, and for a role that may not read beacons.
CREATE OR REPLACE FUNCTION orchestrator.beacon_is_lost(worker_id uuid)
RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    key bigint;
BEGIN
    IF pg_is_in_recovery() OR NOT has_column_privilege('orchestrator.workers', 'beacon', 'SELECT') THEN
        RETURN false;
    END IF;
    SELECT hashtextextended(w.id::text, w.beacon) INTO key
    FROM orchestrator.workers AS w
    WHERE w.id = beacon_is_lost.worker_id AND w.beacon IS NOT NULL
        AND NOT statement_timestamp() - orchestrator.up_since() BETWEEN interval '0' AND w.dead_after;
    RETURN key IS NOT NULL AND NOT EXISTS (
        SELECT
        FROM pg_locks AS l
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
            AND l.classid = ((key >> 32) & 4294967295)::oid AND l.objid = (key & 4294967295)::oid
            AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    );
END
$$;
