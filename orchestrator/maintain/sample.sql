-- Take the gauges of the whole cluster at one moment, and replace orchestrator.samples by them. Out: one row with the
-- fields of GaugesSampled; lists as jsonb. Locks: its rows in samples, which only the leader writes. Reads queue_summary
-- once, so tasks_live from end to end and the dead letters through tasks_dead_queue_idx; workers whole.
-- Measured with a million pending tasks (190 MB), PostgreSQL 18 and 15: 140 to 160 ms, and 190 ms without parallel
-- workers; it grows with the number of tasks. Counting by tasks_live_claim_idx takes 60 ms once vacuumed, but cannot
-- find the oldest task: a place in the order is not a time.
-- An unprivileged role sees no snapshots of other roles' sessions: then NULL, or the oldest snapshot that it sees;
-- grant pg_read_all_stats to the worker's role to see all. These ages use the server's own clock, as the snapshots do.
WITH counted AS MATERIALIZED (
    SELECT
        q.queue, q.pending, q.scheduled, q.blocked, q.claimed, q.running, q.dead_letters, q.oldest_ready_at, q.next_due_at
    FROM orchestrator.queue_summary AS q
),
forgotten AS (
    DELETE FROM orchestrator.samples AS s WHERE NOT EXISTS (SELECT FROM counted AS c WHERE c.queue = s.queue)
),
kept AS (
    INSERT INTO orchestrator.samples AS s (
        queue, pending, scheduled, blocked, claimed, running, dead_letters, oldest_ready_at, next_due_at, sampled_at, took
    )
    SELECT
        c.queue, c.pending, c.scheduled, c.blocked, c.claimed, c.running, c.dead_letters, c.oldest_ready_at, c.next_due_at,
        orchestrator.clock(), clock_timestamp() - statement_timestamp()
    FROM counted AS c
    ORDER BY c.queue
    ON CONFLICT (queue) DO UPDATE
    SET pending = excluded.pending, scheduled = excluded.scheduled, blocked = excluded.blocked, claimed = excluded.claimed,
        running = excluded.running, dead_letters = excluded.dead_letters, oldest_ready_at = excluded.oldest_ready_at,
        next_due_at = excluded.next_due_at, sampled_at = excluded.sampled_at, took = excluded.took
),
cluster AS (
    SELECT w.state, count(*) AS workers FROM orchestrator.workers AS w GROUP BY w.state
),
snapshot AS (
    SELECT greatest(age(a.backend_xid), age(a.backend_xmin)) AS transactions, clock_timestamp() - a.xact_start AS span
    FROM pg_stat_activity AS a
    WHERE num_nonnulls(a.backend_xid, a.backend_xmin) > 0 AND a.pid <> pg_backend_pid()
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
    (
        SELECT coalesce(jsonb_agg(jsonb_build_array(c.queue, l.status, l.tasks) ORDER BY c.queue, l.status), '[]')
        FROM counted AS c
        CROSS JOIN LATERAL (
            VALUES ('pending', c.pending), ('scheduled', c.scheduled), ('blocked', c.blocked), ('claimed', c.claimed),
                ('running', c.running)
        ) AS l (status, tasks)
        WHERE l.tasks > 0
    ) AS tasks,
    (
        SELECT coalesce(jsonb_agg(
            jsonb_build_array(c.queue, date_part('epoch', greatest(orchestrator.clock() - c.oldest_ready_at, interval '0')))
            ORDER BY c.queue
        ), '[]')
        FROM counted AS c
        WHERE c.oldest_ready_at IS NOT NULL
    ) AS oldest_ready_seconds,
    (
        SELECT coalesce(jsonb_agg(jsonb_build_array(c.queue, c.dead_letters) ORDER BY c.queue), '[]')
        FROM counted AS c
        WHERE c.dead_letters > 0
    ) AS dead_letters,
    (SELECT coalesce(jsonb_agg(jsonb_build_array(c.state, c.workers) ORDER BY c.state), '[]') FROM cluster AS c) AS workers,
    pg_notification_queue_usage() AS notification_queue_usage,
    (SELECT max(s.transactions) FROM snapshot AS s) AS oldest_snapshot_transactions,
    (SELECT date_part('epoch', max(s.span)) FROM snapshot AS s) AS oldest_snapshot_seconds,
    (SELECT count(*) FROM orchestrator.day_leaves AS l WHERE l.starts_at > orchestrator.clock()) AS leaves_ahead,
    date_part('epoch', clock_timestamp() - statement_timestamp()) AS took_seconds
