-- Delete at most `at_most` rows of workers that stopped or died longer ago than settings.keep_workers, hold no task
-- and do not lead; returns how many. A claim that was on its way all that time is recovered without the row too.
-- Locks: the worker rows, SKIP LOCKED; takes no lock on tasks. Path: tasks_live_worker_idx for their tasks. It reads
-- the whole table of workers, which has the rows of a few days.
CREATE OR REPLACE FUNCTION orchestrator.purge_workers(at_most integer DEFAULT 1000)
RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
    WITH due AS (
        SELECT w.id
        FROM orchestrator.workers AS w
        WHERE w.state IN ('stopped', 'dead') AND NOT w.is_leader
            AND w.beat_at < (SELECT orchestrator.kept_since(s.keep_workers) FROM orchestrator.settings AS s)
            AND NOT EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.worker_id = w.id)
        ORDER BY w.id
        LIMIT orchestrator.row_limit(at_most)
        FOR UPDATE OF w SKIP LOCKED
    ),
    gone AS (
        DELETE FROM orchestrator.workers AS w WHERE w.id = ANY (ARRAY(SELECT d.id FROM due AS d)) RETURNING w.id
    )
    SELECT count(*)::integer FROM gone AS g
$$;
