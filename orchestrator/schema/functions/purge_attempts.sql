-- Delete at most `at_most` records of attempts that are older than both keep_finished and keep_dead of their queue,
-- 30 days where the queue has no row; returns how many. A role that may call this can delete nothing else by it.
-- Locks: the rows, SKIP LOCKED. Path: attempts_queue_idx, by jumps from queue to queue, as in purge_dead_letters.
CREATE OR REPLACE FUNCTION orchestrator.purge_attempts(at_most integer DEFAULT 1000)
RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    WITH RECURSIVE named AS (
        (SELECT a.queue FROM orchestrator.attempts AS a ORDER BY a.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT a.queue FROM orchestrator.attempts AS a WHERE a.queue > n.queue ORDER BY a.queue LIMIT 1)
        FROM named AS n
        WHERE n.queue IS NOT NULL
    ),
    period AS (
        SELECT n.queue, orchestrator.kept_since(coalesce(
            (SELECT greatest(q.keep_finished, q.keep_dead) FROM orchestrator.queues AS q WHERE q.name = n.queue),
            interval '30 days'
        )) AS kept_since
        FROM named AS n
        WHERE n.queue IS NOT NULL
    ),
    due AS (
        SELECT d.id
        FROM period AS p
        CROSS JOIN LATERAL (
            SELECT a.id
            FROM orchestrator.attempts AS a
            WHERE a.queue = p.queue AND (a.queue, a.finished_at) < (p.queue, p.kept_since)
            LIMIT orchestrator.row_limit(at_most)
            FOR UPDATE SKIP LOCKED
        ) AS d
        LIMIT orchestrator.row_limit(at_most)
    ),
    gone AS (
        DELETE FROM orchestrator.attempts AS a WHERE a.id = ANY (ARRAY(SELECT d.id FROM due AS d)) RETURNING a.id
    )
    SELECT count(*)::integer FROM gone AS g
$$;
