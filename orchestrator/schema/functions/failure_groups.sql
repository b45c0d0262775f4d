-- The failures, grouped by type, error class and normalised message: a number of the newest dead letters, and the same
-- number of the newest failed attempts whose tasks wait for a retry. It reads no more than that, whatever the tables
-- hold, and counts only what it reads. first_seen and last_seen are of these rows too; sample_id is the newest task.
-- group_id is a hash of type, class and message, the same everywhere. To act on a group, name these three:
-- … WHERE status = 'dead_letter' AND type = 'mail' AND error ->> 'class' = 'TimeoutError'
--     AND orchestrator.normalised(error ->> 'message') = 'no answer within <n> s'
-- Path: tasks_dead_finished_idx and attempts_pkey, both backwards; tasks_live_pkey.
CREATE OR REPLACE FUNCTION orchestrator.failure_groups(newest integer DEFAULT 10000)
RETURNS TABLE (
    group_id text,
    type text,
    error_class text,
    message text,
    dead_letters bigint,
    retrying bigint,
    first_seen timestamptz,
    last_seen timestamptz,
    sample_id bigint
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
SET jit = off
AS $$
    WITH dead AS (
        SELECT t.id, t.type, t.error, t.finished_at AS seen_at, 1 AS dead, 0 AS retrying
        FROM orchestrator.tasks_dead AS t
        ORDER BY t.finished_at DESC
        LIMIT greatest(coalesce(failure_groups.newest, 10000), 0)
    ),
    failed AS (
        SELECT n.task_id, max(n.finished_at) AS seen_at
        FROM (
            SELECT a.task_id, a.finished_at
            FROM orchestrator.attempts AS a
            WHERE a.outcome NOT IN ('released', 'snoozed')
            ORDER BY a.id DESC
            LIMIT greatest(coalesce(failure_groups.newest, 10000), 0)
        ) AS n
        GROUP BY n.task_id
    ),
    seen AS (
        SELECT d.id, d.type, d.error, d.seen_at, d.dead, d.retrying FROM dead AS d
        UNION ALL
        -- A task that an operator has requeued has no error, and counts as new.
        SELECT t.id, t.type, t.error, f.seen_at, 0, 1
        FROM failed AS f
        JOIN orchestrator.tasks_live AS t ON t.id = f.task_id
        WHERE t.error IS NOT NULL
    ),
    named AS MATERIALIZED (
        SELECT
            s.id, s.type, s.seen_at, s.dead, s.retrying,
            coalesce(s.error ->> 'class', '') AS error_class,
            orchestrator.normalised(s.error ->> 'message') AS message
        FROM seen AS s
    )
    SELECT
        -- Not md5: a server in FIPS mode refuses it.
        left(lpad(to_hex(hashtextextended(
            concat_ws(E'\x1f', n.type, n.error_class, n.message) COLLATE "C", 0
        )), 16, '0'), 10),
        n.type, n.error_class, n.message,
        sum(n.dead), sum(n.retrying), min(n.seen_at), max(n.seen_at),
        (array_agg(n.id ORDER BY n.seen_at DESC, n.id DESC))[1]
    FROM named AS n
    GROUP BY n.type, n.error_class, n.message
    ORDER BY count(*) DESC, max(n.seen_at) DESC, n.type, n.error_class, n.message
$$;
