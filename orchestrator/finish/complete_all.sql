-- Write the successes of any tasks. It does what complete.sql does, and adds one row for each key of the batch: it
-- returns the permits that the leases held, and counts the ends at the gates that the tasks feed. It gets what
-- complete.sql leaves of a batch; what it refuses is stale.
-- In, out, locks and path: as in complete.sql. Out also: the keys of these rows, for the companions of features
-- (feature/companion.py). The two other tables are only appended to, so nothing waits there.
WITH given AS (
    SELECT g.id, g.lease, g.result, g.age
    FROM ROWS FROM (
        pg_catalog.unnest(%(ids)s::bigint[]), pg_catalog.unnest(%(leases)s::bigint[]),
        pg_catalog.unnest(%(results)s::pg_catalog.text[]), pg_catalog.unnest(%(ages)s::bigint[])
    ) AS g (id, lease, result, age)
),
gone AS (
    DELETE FROM orchestrator.tasks_live AS t
    USING given AS g
    WHERE t.id OPERATOR(pg_catalog.=) g.id AND t.lease OPERATOR(pg_catalog.=) g.lease
    RETURNING
        -- generated: kept of t
        t.id, t.position, t.run_at, t.created_at, t.claimed_at, t.deadline, t.workflow_id, t.parent_id, t.aging_us,
        t.timeout, t.worker_id, t.priority, t.attempt, t.max_attempts, t.queue, t.type, t.payload, t.idempotency_key,
        t.progress, t.tags, t.metadata, t.trace_context, t.tenant, t.limits, t.requires, t.gates,
        -- end
        t.lease, t.losses, t.started_at, t.holds, g.result, g.age
),
-- generated: permits returned of gone
permits_returned AS (
    INSERT INTO orchestrator.permits_returned (hold, permits)
    SELECT h.hold, pg_catalog.count(*)
    FROM gone AS o CROSS JOIN pg_catalog.unnest(o.holds) AS h (hold)
    GROUP BY h.hold
    RETURNING hold
),
-- end
-- generated: count gate successes of gone
gates_counted AS (
    INSERT INTO orchestrator.gate_changes (gate, ended)
    SELECT g.gate, pg_catalog.count(*)
    FROM gone AS o CROSS JOIN pg_catalog.unnest(o.gates) AS g (gate)
    GROUP BY g.gate
    RETURNING gate
),
-- end
done AS (
    INSERT INTO orchestrator.tasks_done (
        -- generated: kept
        id, position, run_at, created_at, claimed_at, deadline, workflow_id, parent_id, aging_us, timeout, worker_id,
        priority, attempt, max_attempts, queue, type, payload, idempotency_key, progress, tags, metadata, trace_context,
        tenant, limits, requires, gates,
        -- end
        lease, losses, started_at, finished_at, status, result
    )
    SELECT
        -- generated: kept
        id, position, run_at, created_at, claimed_at, deadline, workflow_id, parent_id, aging_us, timeout, worker_id,
        priority, attempt, max_attempts, queue, type, payload, idempotency_key, progress, tags, metadata, trace_context,
        tenant, limits, requires, gates,
        -- end
        lease, losses,
        coalesce(
            started_at,
            CASE WHEN age IS NOT NULL THEN greatest(
                claimed_at,
                orchestrator.clock() OPERATOR(pg_catalog.-) (age OPERATOR(pg_catalog.*) interval '1 microsecond')
            ) END
        ),
        orchestrator.clock(), 'completed', result::pg_catalog.jsonb
    FROM gone
    RETURNING id
)
SELECT
    pg_catalog.count(*),
    CASE
        WHEN pg_catalog.count(*) OPERATOR(pg_catalog.<) pg_catalog.cardinality(%(ids)s::bigint[]) THEN pg_catalog.array_agg(id)
    END,
    (SELECT pg_catalog.array_agg(p.hold) FROM permits_returned AS p),
    (SELECT pg_catalog.array_agg(c.gate) FROM gates_counted AS c)
FROM done
