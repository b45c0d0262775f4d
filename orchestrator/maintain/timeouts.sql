-- End and fence off the attempts that run beyond their timeout though their worker should have ended them
-- `margin_seconds` ago. Only attempts of workers that have beaten since then: a worker that could not reach the server
-- may hold the outcome; if it does not come back, its tasks are recovered.
-- Each attempt counts as failed, is written into attempts, and waits for its next attempt as its type's policy says (1
-- s, doubled each time to 300 s, ± 10 %% for an undeclared type). With its attempts used up, the task becomes a dead
-- letter.
-- A timeout of 0 is none. Out: one row: tasks sent back, tasks made dead letters; ended: queue, type, how it ended,
-- seconds waited and run, of each; leader: the worker that runs this. At most `batch_size` for each call; call again
-- while it returns that many.
-- Locks: the task rows by id, SKIP LOCKED: a worker that writes its outcome at this moment is left alone. Path:
-- tasks_live_worker_idx, which holds leased rows only; then the key. id + 0: without it, the order is read from the
-- whole key.
-- Neither the record nor the dead letter keeps the lease: with it the worker would take its own late outcome for one
-- that was written (finish/recorded.sql). worker_id names the worker.
-- The growth is compared in logarithms: 2 to the power of 2000 is an error, and not just more than the cap. Every
-- number of a type or a task is bounded here once more, whatever the tables' constraints say: one error would stop this
-- for all.
-- In: margin_seconds, batch_size; only_ids: the tasks to end, after a round for all has failed; NULL: all.
WITH late AS (
    SELECT t.id, t.lease, t.attempt, t.max_attempts, t.queue, t.type, t.worker_id, t.run_at, t.started_at, t.holds,
        jsonb_build_object(
            'class', 'Timeout',
            'message', format(
                'no result within %%s s, and its worker did not end it',
                round(extract(epoch FROM t.timeout), 3)::double precision
            ),
            'traceback', ''
        ) AS error
    FROM orchestrator.tasks_live AS t
    WHERE t.worker_id >= '00000000-0000-0000-0000-000000000000' AND t.status = 'running'
        AND t.timeout > interval '0'
        AND CASE
            WHEN t.started_at BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'
            THEN t.started_at + least(t.timeout, interval '100 years')
                < orchestrator.clock() - make_interval(secs => %(margin_seconds)s)
        END
        AND (%(only_ids)s::bigint[] IS NULL OR t.id = ANY (%(only_ids)s::bigint[]))
        AND EXISTS (
            SELECT
            FROM orchestrator.workers AS w
            WHERE w.id = t.worker_id AND w.beat_at > t.started_at + least(t.timeout, interval '100 years') + make_interval(secs => %(margin_seconds)s)
        )
    ORDER BY t.id + 0
    LIMIT %(batch_size)s
    FOR UPDATE SKIP LOCKED
),
policy AS (
    SELECT l.id,
        date_part('epoch', least(greatest(coalesce(y.backoff_base, '1 s'), '0'), '100 years')) AS base,
        least(greatest(coalesce(y.backoff_factor, 2), 1), 1000) AS factor,
        date_part('epoch', least(greatest(coalesce(y.backoff_cap, '300 s'), '0'), '100 years')) AS cap,
        1 + least(greatest(coalesce(y.backoff_jitter, 0.1), 0), 1) * (2 * random() - 1) AS spread
    FROM late AS l
    LEFT JOIN orchestrator.types AS y ON y.name = l.type
),
wait AS (
    SELECT p.id, p.spread * CASE
        WHEN p.base <= 0 THEN 0
        WHEN p.cap <= p.base THEN p.cap
        WHEN ln(p.factor) * (l.attempt - 1) >= ln(p.cap / p.base) THEN p.cap
        ELSE p.base * power(p.factor, l.attempt - 1)
    END AS seconds
    FROM policy AS p
    JOIN late AS l ON l.id = p.id
),
recorded AS (
    INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type, error, worker_id, started_at)
    SELECT l.id, l.attempt, 'timeout', l.queue, l.type, l.error, l.worker_id, l.started_at
    FROM late AS l
),
back AS (
    UPDATE orchestrator.tasks_live AS t
    SET status = CASE WHEN w.seconds > 0 THEN 'scheduled' ELSE 'pending' END,
        run_at = orchestrator.clock() + make_interval(secs => w.seconds),
        error = l.error,
        lease = NULL,
        worker_id = NULL
    FROM late AS l
    JOIN wait AS w ON w.id = l.id
    WHERE t.id = ANY (ARRAY(SELECT k.id FROM late AS k)) AND t.id = l.id AND t.lease = l.lease
        AND t.status = 'running' AND l.attempt < l.max_attempts
    RETURNING t.queue, t.run_at
),
gone AS (
    DELETE FROM orchestrator.tasks_live AS t
    USING late AS l
    WHERE t.id = ANY (ARRAY(SELECT k.id FROM late AS k)) AND t.id = l.id AND t.lease = l.lease
        AND t.status = 'running' AND l.attempt >= l.max_attempts
    RETURNING
        -- generated: kept of t
        t.id, t.position, t.run_at, t.created_at, t.claimed_at, t.deadline, t.workflow_id, t.parent_id, t.aging_us,
        t.timeout, t.worker_id, t.priority, t.attempt, t.max_attempts, t.queue, t.type, t.payload, t.idempotency_key,
        t.progress, t.tags, t.metadata, t.trace_context, t.tenant, t.limits, t.requires, t.gates,
        -- end
        t.losses, t.started_at, l.error
),
dead_lettered AS (
    INSERT INTO orchestrator.tasks_dead (
        -- generated: kept
        id, position, run_at, created_at, claimed_at, deadline, workflow_id, parent_id, aging_us, timeout, worker_id,
        priority, attempt, max_attempts, queue, type, payload, idempotency_key, progress, tags, metadata, trace_context,
        tenant, limits, requires, gates,
        -- end
        losses, started_at, finished_at, status, error
    )
    SELECT
        -- generated: kept
        id, position, run_at, created_at, claimed_at, deadline, workflow_id, parent_id, aging_us, timeout, worker_id,
        priority, attempt, max_attempts, queue, type, payload, idempotency_key, progress, tags, metadata, trace_context,
        tenant, limits, requires, gates,
        -- end
        losses, started_at, orchestrator.clock(), 'dead_letter', error
    FROM gone
),
-- generated: permits returned of late
permits_returned AS (
    INSERT INTO orchestrator.permits_returned (hold, permits)
    SELECT h.hold, pg_catalog.count(*)
    FROM late AS o CROSS JOIN pg_catalog.unnest(o.holds) AS h (hold)
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
    SELECT orchestrator.ring(ARRAY[n.queue], n.due) AS rang
    FROM (SELECT b.queue, min(b.run_at) AS due FROM back AS b GROUP BY b.queue) AS n
)
SELECT
    (SELECT count(*) FROM back) AS retried,
    (SELECT count(*) FROM gone) AS dead_lettered,
    (SELECT count(*) FROM rung) AS rings,
    (
        SELECT jsonb_agg(jsonb_build_array(
            l.queue,
            l.type,
            CASE WHEN l.attempt < l.max_attempts THEN 'timed_out' ELSE 'dead_lettered' END,
            least(greatest(date_part('epoch', l.started_at) - date_part('epoch', l.run_at), 0), 3155760000),
            date_part('epoch', orchestrator.clock() - l.started_at)
        ))
        FROM late AS l
    ) AS ended,
    (SELECT w.id FROM orchestrator.workers AS w WHERE w.is_leader) AS leader
