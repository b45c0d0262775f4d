-- Delete at most `at_most` dead letters that are older than their queue's keep_dead, 30 days where the queue has no
-- row; returns how many. A role that may call this can delete nothing else by it. The keys of the tasks become free
-- (take_key).
-- Locks: the rows, SKIP LOCKED; a manual requeue that commits at the same moment can make this fail with 40001.
-- Path: tasks_dead_queue_idx, by jumps from queue to queue: it never reads rows of a queue that keeps its dead letters
-- for years, however many come before the due rows. The condition compares a pair, without an ORDER BY: with
-- finished_at alone the planner prefers tasks_dead_finished_idx, which has the order of the table, and reads all rows.
CREATE OR REPLACE FUNCTION orchestrator.purge_dead_letters(at_most integer DEFAULT 1000)
RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    WITH RECURSIVE named AS (
        (SELECT t.queue FROM orchestrator.tasks_dead AS t ORDER BY t.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT t.queue FROM orchestrator.tasks_dead AS t WHERE t.queue > n.queue ORDER BY t.queue LIMIT 1)
        FROM named AS n
        WHERE n.queue IS NOT NULL
    ),
    period AS (
        SELECT n.queue, orchestrator.kept_since(coalesce(
            (SELECT q.keep_dead FROM orchestrator.queues AS q WHERE q.name = n.queue), interval '30 days'
        )) AS kept_since
        FROM named AS n
        WHERE n.queue IS NOT NULL
    ),
    due AS (
        SELECT d.id
        FROM period AS p
        CROSS JOIN LATERAL (
            SELECT t.id
            FROM orchestrator.tasks_dead AS t
            WHERE t.queue = p.queue AND (t.queue, t.finished_at) < (p.queue, p.kept_since)
            LIMIT orchestrator.row_limit(at_most)
            FOR UPDATE SKIP LOCKED
        ) AS d
        LIMIT orchestrator.row_limit(at_most)
    ),
    gone AS (
        DELETE FROM orchestrator.tasks_dead AS t WHERE t.id = ANY (ARRAY(SELECT d.id FROM due AS d)) RETURNING t.id
    )
    SELECT count(*)::integer FROM gone AS g
$$;
