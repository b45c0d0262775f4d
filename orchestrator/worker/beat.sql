-- The beat of a worker: write that the worker lives, and read what has changed for it. Also the look between two beats
-- (`beats` false: nothing is written). leases.sql reads the state of its leases in a separate statement: a lock on the
-- tasks must not delay a beat, or the worker would be declared dead.
-- In: id; beats; draining: this worker claims no more; beacon: the one it holds on its LISTEN session, or NULL;
--     blocked_seconds: how long its event loop has been blocked, NULL if it turns;
--     term_seconds; rings: notify this worker itself, to check that LISTEN delivers.
-- Out: one row. alive: false if it was declared dead or its row is gone: it has lost every lease. draining: because it
--     stops or an operator asked for it. at_home: false in a copy of the database that no operator has resumed. term:
--     the one in which it leads, or NULL. paused: those of its queues that are. peers: how many workers live. deputy:
--     whether it watches the leader closely; the first three workers that do not lead do. A single deputy could die
--     together with the leader. The leader: its id, its last beat, whether its term holds, whether its beacon is gone.
-- A term is renewed only before it ends: after that another worker may lead. A draining worker does not renew it
-- either, in case its resignation has failed.
-- A missing beacon means nothing while the server is young: a restart or a failover drops all of them at once.
-- Locks: its own row, FOR NO KEY UPDATE, so it never waits for a duty's fence. Never touches tasks.
-- Paths: workers_pkey, workers_one_leader_idx.
WITH hint AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
),
-- The worker's own beacon, checked from the heartbeat's thread: if the listener's session ends while the loop is
-- blocked, the loop cannot report it.
own_beacon AS MATERIALIZED (
    SELECT coalesce(
        pg_try_advisory_xact_lock_shared(hashtextextended(%(id)s::uuid::text, %(beacon)s::bigint)), false
    ) AS own
),
beat AS (
    UPDATE orchestrator.workers AS w
    SET beat_at = orchestrator.clock(),
        state = CASE WHEN %(draining)s THEN 'draining' ELSE w.state END,
        beacon = CASE WHEN own_beacon.own THEN NULL ELSE %(beacon)s::bigint END,
        blocked_at = orchestrator.clock() - make_interval(secs => %(blocked_seconds)s::float8),
        leader_until = CASE
            WHEN w.is_leader AND w.leader_until > orchestrator.clock() AND w.state = 'running' AND NOT %(draining)s
                THEN orchestrator.clock() + make_interval(secs => %(term_seconds)s)
            ELSE w.leader_until
        END
    FROM hint, own_beacon
    WHERE w.id = %(id)s AND w.state IN ('running', 'draining') AND %(beats)s
    RETURNING w.id, w.state, w.queues, w.is_leader, w.leader_until, w.term, w.workplace = w.tableoid AS at_home
),
me AS MATERIALIZED (
    SELECT b.id, b.state, b.queues, b.is_leader, b.leader_until, b.term, b.at_home FROM beat AS b
    UNION ALL
    SELECT w.id, w.state, w.queues, w.is_leader, w.leader_until, w.term, w.workplace = w.tableoid
    FROM orchestrator.workers AS w
    WHERE w.id = %(id)s AND w.state IN ('running', 'draining') AND NOT %(beats)s
),
leader AS (
    SELECT w.id, w.beat_at,
        w.leader_until > orchestrator.clock()
            AND w.leader_until <= orchestrator.clock() + make_interval(secs => 2 * %(term_seconds)s)
            AND w.state IN ('running', 'draining') AS holds,
        w.beacon IS NOT NULL
            AND NOT statement_timestamp() - orchestrator.up_since()
                BETWEEN interval '0' AND w.dead_after
            AND pg_try_advisory_xact_lock_shared(hashtextextended(w.id::text, w.beacon)) AS beacon_lost
    FROM orchestrator.workers AS w
    WHERE w.is_leader
)
SELECT
    EXISTS (SELECT FROM me) AS alive,
    coalesce((SELECT m.state = 'draining' FROM me AS m), false) AS draining,
    (SELECT m.term FROM me AS m WHERE m.is_leader AND m.leader_until > orchestrator.clock()) AS term,
    (
        SELECT array_agg(q.name ORDER BY q.name)
        FROM orchestrator.queues AS q
        WHERE q.state = 'paused' AND q.name = ANY ((SELECT m.queues FROM me AS m)::text[])
    ) AS paused,
    (SELECT l.id FROM leader AS l) AS leader_id,
    (SELECT l.beat_at FROM leader AS l) AS leader_beat_at,
    coalesce((SELECT l.holds FROM leader AS l), false) AS leader_holds,
    coalesce((SELECT l.beacon_lost FROM leader AS l), false) AS leader_beacon_lost,
    coalesce((SELECT m.at_home FROM me AS m), true) AS at_home,
    (SELECT d.own FROM own_beacon AS d) AS beacon_lost,
    (SELECT count(*) FROM orchestrator.workers AS w WHERE w.state IN ('running', 'draining')) AS peers,
    %(id)s = ANY (ARRAY(
        SELECT w.id FROM orchestrator.workers AS w
        WHERE w.state IN ('running', 'draining') AND NOT w.is_leader
        ORDER BY w.id
        LIMIT 3
    )) AS deputy,
    CASE WHEN %(rings)s THEN pg_notify('orchestrator_workers', %(id)s::uuid::text)::text END AS rang
