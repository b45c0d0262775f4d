-- Write every end that is no success: waiting again (retry, snooze, put back, release), cancelled, or a dead letter.
-- In, pairwise and sorted by id: ids, leases; ends: 'waiting', 'cancelled' or 'dead_letter';
-- delays in seconds (NULL: keep the old place); ages: µs since the handler started, or NULL; charged: whether the
-- attempt counts; errors (JSON text or NULL: keep the last); records: what to write into attempts (NULL: nothing);
-- worker_id. Out: the ids accepted, with the keys of the permits that were returned and of the gates that were told.
-- A task that is ready again at once rings a sleeping worker: the worker that gives the task back may be about to end.
-- Locks: the task rows, in the order of the ids. Path: tasks_live_pkey, as in complete.sql.
WITH given AS (
    SELECT g.id, g.lease, g.ending, g.delay_seconds, g.charged, g.error::jsonb AS error, g.record, g.age
    FROM unnest(
        %(ids)s::bigint[], %(leases)s::bigint[], %(ends)s::text[], %(delays)s::double precision[],
        %(charged)s::boolean[], %(errors)s::text[], %(records)s::text[], %(ages)s::bigint[]
    ) AS g (id, lease, ending, delay_seconds, charged, error, record, age)
),
gone AS (
    DELETE FROM orchestrator.tasks_live AS t
    USING given AS g
    WHERE t.id = g.id AND t.lease = g.lease AND g.ending IN ('cancelled', 'dead_letter')
    RETURNING
        -- generated: kept of t
        t.id, t.position, t.run_at, t.created_at, t.claimed_at, t.deadline, t.workflow_id, t.parent_id, t.aging_us,
        t.timeout, t.worker_id, t.priority, t.attempt, t.max_attempts, t.queue, t.type, t.payload, t.idempotency_key,
        t.progress, t.tags, t.metadata, t.trace_context, t.tenant, t.limits, t.requires, t.gates,
        -- end
        coalesce(
            t.started_at,
            CASE WHEN g.age IS NOT NULL THEN greatest(t.claimed_at, orchestrator.clock() - g.age * interval '1 microsecond') END
        ) AS started_at,
        t.lease, t.losses, t.holds, coalesce(g.error, t.error) AS error, g.ending, g.record
),
cancelled AS (
    INSERT INTO orchestrator.tasks_done (
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
        lease, losses, started_at, orchestrator.clock(), ending, error
    FROM gone
    WHERE ending = 'cancelled'
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
        lease, losses, started_at, orchestrator.clock(), ending, error
    FROM gone
    WHERE ending = 'dead_letter'
),
back AS (
    -- claimed_at and started_at stay: they describe the last attempt until the next claim.
    UPDATE orchestrator.tasks_live AS t
    SET status = CASE WHEN g.delay_seconds > 0 THEN 'scheduled' ELSE 'pending' END,
        run_at = CASE
            WHEN g.delay_seconds IS NULL THEN t.run_at
            ELSE orchestrator.clock() + make_interval(secs => g.delay_seconds)
        END,
        attempt = t.attempt - CASE WHEN g.charged THEN 0 ELSE 1 END,
        started_at = coalesce(
            t.started_at,
            CASE WHEN g.age IS NOT NULL THEN greatest(t.claimed_at, orchestrator.clock() - g.age * interval '1 microsecond') END
        ),
        lease = NULL,
        worker_id = NULL,
        error = coalesce(g.error, t.error)
    FROM given AS g
    WHERE t.id = g.id AND t.lease = g.lease AND g.ending = 'waiting'
    RETURNING t.id, t.attempt + CASE WHEN g.charged THEN 0 ELSE 1 END AS attempt, t.queue, t.type, t.started_at,
        t.status, t.holds, g.lease, g.error, g.record
),
ended AS (
    SELECT b.holds FROM back AS b WHERE b.holds IS NOT NULL
    UNION ALL
    SELECT o.holds FROM gone AS o WHERE o.holds IS NOT NULL
),
-- generated: permits returned of ended
permits_returned AS (
    INSERT INTO orchestrator.permits_returned (hold, permits)
    SELECT h.hold, pg_catalog.count(*)
    FROM ended AS o CROSS JOIN pg_catalog.unnest(o.holds) AS h (hold)
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
    SELECT orchestrator.ring(array_agg(DISTINCT b.queue)) AS rang FROM back AS b WHERE b.status = 'pending' HAVING count(*) > 0
),
recorded AS (
    INSERT INTO orchestrator.attempts (
        task_id, attempt, outcome, queue, type, error, lease, worker_id, started_at
    )
    SELECT id, attempt, record, queue, type, error, lease, %(worker_id)s::uuid, started_at
    FROM (
        SELECT id, attempt, record, queue, type, error, lease, started_at FROM back
        UNION ALL
        SELECT id, attempt, record, queue, type, error, lease, started_at FROM gone
    ) AS ended
    WHERE record IS NOT NULL
    ON CONFLICT (task_id, lease) DO NOTHING
)
SELECT id, holds, NULL::bigint[] AS gates FROM back WHERE (SELECT count(*) FROM rung) >= 0
UNION ALL
SELECT id, holds, gates FROM gone
