-- Declare missing workers dead, and take their tasks back. A worker is missing if its beat is older than its own
-- dead_after, or if its beacon is gone and no beat came since a look saw that, a moment ago (gone_ids, gone_beats,
-- pairwise; this statement tries the beacon again).
-- With `spares_after_restart`, no beat is too old before the server has been up (up_since) for that dead_after: no
-- worker could beat while the server was down. A living worker is late only if it was watched for a while (watched_ids,
-- watched_beats, pairwise; NULL: all were): the clock may have jumped. A beat from the future, written by a clock that
-- has since been set back, counts as a beat of now. This statement never declares dead the leader that runs it.
-- A task that had not begun, as far as the database knows, gets its attempt and its old place back, and a note in
-- `error`: with that note a worker marks it running before the next start, so that it cannot kill one worker after the
-- other unseen. A task that had begun counts a loss, is written into attempts, and runs again. Another task may have
-- killed the worker, so one attempt is given back if it was the last. From the second loss on a task runs alone
-- (worker/suspects.py), and only what it loses alone counts against it: with the third such loss, its fifth, it becomes
-- a dead letter. One such loss would be too few: where workers are killed at random, that convicted 5 innocent tasks of
-- 47,025.
-- Out: one row: tasks returned, tasks made dead letters, workers declared dead; ended: queue, type and result of each
-- (an undeclared type is any text, and is reported without its name); leader: the worker that runs this. At most
-- `batch_size` tasks for each call; call again while it returns that many.
-- In `only_ids`: which tasks to take back, after a round for all has failed; NULL: all.
-- Locks: worker rows, then task rows by id, SKIP LOCKED both, so that several callers may run it at once. A worker that
-- beats at this moment has its row locked and is left alone. Path: tasks_live_worker_idx.
-- id = ANY beside the join: on tables that were empty a moment ago the join alone may read a whole primary key.
-- A dead worker's row stays dead: when the process comes back, its beat finds no row, and it registers anew.
-- Tasks whose worker has no row at all (the row was deleted) are taken back too: a worker writes its row before its
-- first claim, so a missing row is proof. The holders of tasks are read by leaps through the index, one row for each
-- worker: however many tasks the living workers hold, and whatever the statistics say of a column that is NULL nearly
-- everywhere. id + 0: without it, a plan kept while the table was empty reads the whole primary key for the order.
WITH RECURSIVE holder AS (
    (
        SELECT t.worker_id
        FROM orchestrator.tasks_live AS t
        WHERE t.worker_id IS NOT NULL
        ORDER BY t.worker_id
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT t.worker_id
        FROM orchestrator.tasks_live AS t
        WHERE t.worker_id > h.worker_id
        ORDER BY t.worker_id
        LIMIT 1
    )
    FROM holder AS h
    WHERE h.worker_id IS NOT NULL
),
without_beacon AS (
    SELECT g.id, g.beat_at FROM unnest(%(gone_ids)s::uuid[], %(gone_beats)s::timestamptz[]) AS g (id, beat_at)
),
watched AS (
    SELECT g.id, g.beat_at FROM unnest(%(watched_ids)s::uuid[], %(watched_beats)s::timestamptz[]) AS g (id, beat_at)
),
redated AS (
    UPDATE orchestrator.workers AS w
    SET beat_at = orchestrator.clock()
    WHERE w.id = ANY (ARRAY(
        SELECT f.id
        FROM orchestrator.workers AS f
        WHERE f.state IN ('running', 'draining')
            AND f.beat_at > orchestrator.clock() + f.dead_after
        ORDER BY f.id
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING w.id
),
late AS (
    SELECT w.id, w.host, w.pid
    FROM orchestrator.workers AS w
    -- A stopped worker may still hold tasks: from a claim that was on its way when the connection closed.
    WHERE (w.state IN ('running', 'draining') OR w.id IN (SELECT h.worker_id FROM holder AS h))
        AND (
            w.beat_at < orchestrator.clock() - w.dead_after
                AND NOT (
                    %(spares_after_restart)s
                    AND statement_timestamp() - orchestrator.up_since() BETWEEN interval '0' AND w.dead_after
                )
                AND (
                    %(watched_ids)s::uuid[] IS NULL
                    OR w.state = 'stopped'
                    OR EXISTS (SELECT FROM watched AS g WHERE g.id = w.id AND g.beat_at = w.beat_at)
                )
            OR w.state = 'dead'
            OR w.beacon IS NOT NULL
                AND w.beat_at >= orchestrator.clock() - w.dead_after
                AND EXISTS (SELECT FROM without_beacon AS g WHERE g.id = w.id AND g.beat_at = w.beat_at)
                AND pg_try_advisory_xact_lock_shared(hashtextextended(w.id::text, w.beacon))
        )
    ORDER BY w.id
    LIMIT 100
    FOR UPDATE SKIP LOCKED
),
dead AS (
    SELECT l.id, l.host, l.pid FROM late AS l
    UNION ALL
    (
        SELECT h.worker_id, '?', 0
        FROM holder AS h
        WHERE h.worker_id IS NOT NULL
            AND NOT EXISTS (SELECT FROM orchestrator.workers AS w WHERE w.id = h.worker_id)
        LIMIT 100
    )
),
declared AS (
    UPDATE orchestrator.workers AS w
    SET state = 'dead', idle_until = NULL, beacon = NULL
    FROM late AS d
    WHERE w.id = d.id AND w.state <> 'dead'
    RETURNING w.id
),
orphan AS (
    SELECT t.id, t.lease, t.status, t.attempt, t.losses, t.queue, t.type, t.started_at, t.holds,
        t.status = 'running' AND t.losses >= 4 AS is_convicted,
        d.id AS worker_id,
        jsonb_build_object(
            'class', 'WorkerLost',
            'message', format('worker %%s (%%s, pid %%s) was gone while it ran this', d.id, d.host, d.pid) || coalesce((
                -- A dead letter names every worker that was lost with it. Split: the record of an earlier dead letter
                -- names the workers before it as well.
                SELECT '; before it: ' || string_agg(split_part(a.error ->> 'message', '; before it: ', 1), '; ' ORDER BY a.id)
                FROM orchestrator.attempts AS a
                WHERE a.task_id = t.id AND a.outcome = 'lost' AND a.error ->> 'class' = 'WorkerLost'
                    AND t.status = 'running' AND t.losses >= 4
            ), ''),
            'traceback', ''
        ) AS error,
        jsonb_build_object(
            'class', 'WorkerLost',
            'message', format('worker %%s (%%s, pid %%s) was gone before this was seen to start', d.id, d.host, d.pid),
            'traceback', ''
        ) AS doubt
    FROM dead AS d
    CROSS JOIN LATERAL (
        SELECT l.id, l.lease, l.status, l.attempt, l.losses, l.queue, l.type, l.started_at, l.holds
        FROM orchestrator.tasks_live AS l
        WHERE l.worker_id = d.id AND (%(only_ids)s::bigint[] IS NULL OR l.id = ANY (%(only_ids)s::bigint[]))
        ORDER BY l.id + 0
        LIMIT %(batch_size)s
        FOR UPDATE SKIP LOCKED
    ) AS t
    LIMIT %(batch_size)s
),
lost AS (
    INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type, error, lease, worker_id, started_at)
    SELECT o.id, o.attempt, 'lost', o.queue, o.type, o.error, o.lease, o.worker_id, o.started_at
    FROM orphan AS o
    WHERE o.status = 'running'
    -- The worker may have reported the execution itself (finish/record_void.sql).
    ON CONFLICT (task_id, lease) DO NOTHING
),
back AS (
    UPDATE orchestrator.tasks_live AS t
    SET status = 'pending',
        attempt = CASE WHEN o.status = 'running' THEN least(t.attempt, t.max_attempts - 1) ELSE greatest(t.attempt, 1) - 1 END,
        losses = CASE WHEN o.status = 'running' THEN least(t.losses, 32766) + 1 ELSE t.losses END,
        error = CASE WHEN o.status = 'running' THEN o.error ELSE coalesce(t.error, o.doubt) END,
        lease = NULL,
        worker_id = NULL
    FROM orphan AS o
    WHERE t.id = ANY (ARRAY(SELECT k.id FROM orphan AS k)) AND t.id = o.id AND t.lease = o.lease
        AND NOT o.is_convicted
    RETURNING t.queue
),
gone AS (
    DELETE FROM orchestrator.tasks_live AS t
    USING orphan AS o
    WHERE t.id = ANY (ARRAY(SELECT k.id FROM orphan AS k)) AND t.id = o.id AND t.lease = o.lease
        AND o.is_convicted
    RETURNING
        -- generated: kept of t
        t.id, t.position, t.run_at, t.created_at, t.claimed_at, t.deadline, t.workflow_id, t.parent_id, t.aging_us,
        t.timeout, t.worker_id, t.priority, t.attempt, t.max_attempts, t.queue, t.type, t.payload, t.idempotency_key,
        t.progress, t.tags, t.metadata, t.trace_context, t.tenant, t.limits, t.requires, t.gates,
        -- end
        t.lease, least(t.losses, 32766) + 1 AS losses, t.started_at, o.error
),
dead_lettered AS (
    INSERT INTO orchestrator.tasks_dead (
        -- generated: kept
        id, position, run_at, created_at, claimed_at, deadline, workflow_id, parent_id, aging_us, timeout, worker_id,
        priority, attempt, max_attempts, queue, type, payload, idempotency_key, progress, tags, metadata, trace_context,
        tenant, limits, requires, gates,
        -- end
        lease, losses, started_at, finished_at, status, error
    )
    SELECT
        -- generated: kept
        id, position, run_at, created_at, claimed_at, deadline, workflow_id, parent_id, aging_us, timeout, worker_id,
        priority, attempt, max_attempts, queue, type, payload, idempotency_key, progress, tags, metadata, trace_context,
        tenant, limits, requires, gates,
        -- end
        lease, losses, started_at, orchestrator.clock(), 'dead_letter', error
    FROM gone
),
-- generated: permits returned of orphan
permits_returned AS (
    INSERT INTO orchestrator.permits_returned (hold, permits)
    SELECT h.hold, pg_catalog.count(*)
    FROM orphan AS o CROSS JOIN pg_catalog.unnest(o.holds) AS h (hold)
    GROUP BY h.hold
    RETURNING hold
),
-- end
-- generated: count gate failures of gone
gates_counted AS (
    INSERT INTO orchestrator.gate_changes (gate, ended, failed)
    SELECT g.gate, pg_catalog.count(*), pg_catalog.count(*)
    FROM gone AS o CROSS JOIN pg_catalog.unnest(o.gates) AS g (gate)
    GROUP BY g.gate
    RETURNING gate
),
-- end
rung AS MATERIALIZED (
    SELECT orchestrator.ring(array_agg(DISTINCT b.queue)) AS rang FROM back AS b HAVING count(*) > 0
)
SELECT
    (SELECT count(*) FROM back) AS returned,
    (SELECT count(*) FROM gone) AS dead_lettered,
    (SELECT count(*) FROM declared) AS workers,
    (SELECT count(*) FROM rung) AS rings,
    (SELECT count(*) FROM redated) AS redated,
    (
        SELECT jsonb_agg(jsonb_build_array(
            o.queue,
            coalesce((SELECT y.name FROM orchestrator.types AS y WHERE y.name = o.type), '(unknown)'),
            CASE WHEN o.status <> 'running' THEN 'released' WHEN o.is_convicted THEN 'dead_lettered' ELSE 'lost' END,
            NULL,
            NULL
        ))
        FROM orphan AS o
    ) AS ended,
    (SELECT w.id FROM orchestrator.workers AS w WHERE w.is_leader) AS leader
