-- Delete at most `at_most` rows of statistics that are older than settings.keep_statistics (by the minute: older than
-- two days at most); returns how many. A role that may call this can delete nothing else by it.
-- Locks: the rows, SKIP LOCKED. Path: the primary keys.
CREATE OR REPLACE FUNCTION orchestrator.purge_statistics(at_most integer DEFAULT 1000)
RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    WITH minutes AS (
        DELETE FROM orchestrator.statistics AS s
        WHERE s.ctid = ANY (ARRAY(
            SELECT d.ctid
            FROM orchestrator.statistics AS d
            WHERE d.minute < (
                SELECT orchestrator.kept_since(least(s.keep_statistics, interval '2 days')) FROM orchestrator.settings AS s
            )
            ORDER BY d.minute, d.queue, d.type
            LIMIT orchestrator.row_limit(at_most)
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING s.minute
    ),
    hours AS (
        DELETE FROM orchestrator.statistics_by_hour AS s
        WHERE s.ctid = ANY (ARRAY(
            SELECT d.ctid
            FROM orchestrator.statistics_by_hour AS d
            WHERE d.hour < (SELECT orchestrator.kept_since(s.keep_statistics) - interval '1 hour' FROM orchestrator.settings AS s)
            ORDER BY d.hour, d.queue, d.type
            LIMIT greatest(orchestrator.row_limit(at_most) - (SELECT count(*) FROM minutes AS m), 0)
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING s.hour
    )
    SELECT ((SELECT count(*) FROM minutes AS m) + (SELECT count(*) FROM hours AS h))::integer
$$;
