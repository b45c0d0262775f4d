-- Take the gauges of the whole cluster at one moment, and replace orchestrator.samples by them. Out: one row; lists as
-- jsonb. Locks: its rows in samples, which only the leader writes. Reads tasks_live from end to end once, the dead
-- letters through tasks_dead_queue_idx, workers whole.
-- Measured with a million pending tasks (190 MB), PostgreSQL 18 and 15: 140 to 160 ms, and 190 ms without parallel
-- workers; it grows with the number of tasks. Counting by tasks_live_claim_idx takes 60 ms once vacuumed, but cannot
-- find the oldest task: a place in the order is not a time.
-- An unprivileged role sees no snapshots of other roles' sessions: then NULL, or the oldest snapshot that it sees;
-- grant pg_read_all_stats to the worker's role to see all. These ages use the server's own clock, as the snapshots do.
WITH live AS (
    SELECT
        t.queue, t.status, count(*) AS tasks,
        min(t.run_at) FILTER (WHERE t.status = 'pending' AND t.run_at >= '1970-01-01 UTC') AS oldest_ready_at,
        min(t.run_at) FILTER (WHERE t.status = 'scheduled' AND t.run_at BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC') AS next_due_at
    FROM orchestrator.tasks_live AS t
    GROUP BY t.queue, t.status
),
dead AS (
    SELECT t.queue, count(*) AS tasks FROM orchestrator.tasks_dead AS t GROUP BY t.queue
),
counted AS (
    SELECT
        n.queue,
        coalesce(sum(l.tasks) FILTER (WHERE l.status = 'pending'), 0) AS pending,
        coalesce(sum(l.tasks) FILTER (WHERE l.status = 'scheduled'), 0) AS scheduled,
        coalesce(sum(l.tasks) FILTER (WHERE l.status = 'blocked'), 0) AS blocked,
        coalesce(sum(l.tasks) FILTER (WHERE l.status = 'claimed'), 0) AS claimed,
        coalesce(sum(l.tasks) FILTER (WHERE l.status = 'running'), 0) AS running,
        coalesce((SELECT d.tasks FROM dead AS d WHERE d.queue = n.queue), 0) AS dead_letters,
        min(l.oldest_ready_at) AS oldest_ready_at,
        min(l.next_due_at) AS next_due_at
    FROM (
        SELECT q.name AS queue FROM orchestrator.queues AS q
        UNION
        SELECT l.queue FROM live AS l
        UNION
        SELECT d.queue FROM dead AS d
    ) AS n
    LEFT JOIN live AS l ON l.queue = n.queue
    GROUP BY n.queue
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
crew AS (
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
