-- The gauges of the whole cluster, at one moment. Out: one row; lists as jsonb.
-- Locks nothing. Reads tasks_live from end to end once, the dead letters through tasks_dead_queue_idx, workers whole.
-- Measured with a million pending tasks (190 MB), PostgreSQL 18 and 15: 140 to 160 ms, and 190 ms without parallel
-- workers; it grows with the number of tasks. Counting by tasks_live_claim_idx takes 60 ms once vacuumed, and cannot
-- tell the oldest: a place in the order is not a time.
-- Of other roles' sessions an unprivileged one sees no snapshot: then NULL, or the oldest of those it sees; give the
-- worker's role pg_read_all_stats to see all. Time is the server's own there, as theirs is.
WITH live AS (
    SELECT t.queue, t.status, count(*) AS tasks, min(t.run_at) FILTER (WHERE t.status = 'pending') AS oldest_ready_at
    FROM orchestrator.tasks_live AS t
    GROUP BY t.queue, t.status
),
dead AS (
    SELECT t.queue, count(*) AS tasks FROM orchestrator.tasks_dead AS t GROUP BY t.queue
),
crew AS (
    SELECT w.state, count(*) AS workers FROM orchestrator.workers AS w GROUP BY w.state
),
snapshot AS (
    SELECT age(a.backend_xmin) AS transactions, clock_timestamp() - a.xact_start AS span
    FROM pg_stat_activity AS a
    WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()
        AND (a.datname = current_database() OR a.datname IS NULL)
        AND coalesce(a.backend_type, '') NOT IN ('autovacuum worker', 'parallel worker')
    UNION ALL
    SELECT age(p.transaction), clock_timestamp() - p.prepared
    FROM pg_prepared_xacts AS p
    WHERE p.database = current_database()
    UNION ALL
    SELECT age(s.xmin), NULL FROM pg_replication_slots AS s WHERE s.xmin IS NOT NULL
)
SELECT
    (SELECT coalesce(jsonb_agg(jsonb_build_array(l.queue, l.status, l.tasks) ORDER BY l.queue, l.status), '[]') FROM live AS l),
    (
        SELECT coalesce(jsonb_agg(
            jsonb_build_array(l.queue, date_part('epoch', greatest(orchestrator.clock() - l.oldest_ready_at, interval '0')))
            ORDER BY l.queue
        ), '[]')
        FROM live AS l
        WHERE l.oldest_ready_at IS NOT NULL
    ),
    (SELECT coalesce(jsonb_agg(jsonb_build_array(d.queue, d.tasks) ORDER BY d.queue), '[]') FROM dead AS d),
    (SELECT coalesce(jsonb_agg(jsonb_build_array(c.state, c.workers) ORDER BY c.state), '[]') FROM crew AS c),
    pg_notification_queue_usage(),
    (SELECT max(s.transactions) FROM snapshot AS s),
    (SELECT date_part('epoch', max(s.span)) FROM snapshot AS s),
    (SELECT count(*) FROM orchestrator.day_leaves AS l WHERE l.starts_at > orchestrator.clock()),
    date_part('epoch', clock_timestamp() - statement_timestamp())
