-- Write successes: each row leaves tasks_live and enters today's leaf of tasks_done, if its lease still holds.
-- In: ids, leases, results (JSON text or NULL; NULL for all: no results), ages (µs since the handler started),
-- pairwise, sorted by id. Out: one row: how many were accepted, and, if not all were, their ids: the others are stale. A
-- row an id would cost driver and server 0.3 µs each. The error of an earlier attempt is cleared.
-- Locks: the task rows, in the order of the ids. Path: tasks_live_pkey; worker_id and status are not named, so
-- that no partial index can be chosen instead (docs/decisions/0002-whose-tasks.md).
-- DELETE + INSERT and not an UPDATE of status: moving a row between leaves makes every concurrent writer of it
-- fail with 40001, even in READ COMMITTED.
-- It also ends a handler's own transaction, in whose session others may come first in the search_path: so all is qualified.
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
        t.id, t.lease, t.run_at, t.created_at, t.claimed_at, t.started_at, t.aging_us, t.timeout, t.worker_id,
        t.priority, t.attempt, t.max_attempts, t.losses, t.queue, t.type, t.payload, t.idempotency_key,
        t.progress, t.tags, t.metadata, t.trace_context, g.result, g.age
),
done AS (
    INSERT INTO orchestrator.tasks_done (
        id, lease, run_at, created_at, claimed_at, started_at, finished_at, aging_us, timeout, worker_id,
        priority, attempt, max_attempts, losses, status, queue, type, payload, idempotency_key,
        result, progress, tags, metadata, trace_context
    )
    SELECT
        id, lease, run_at, created_at, claimed_at,
        coalesce(
            started_at,
            CASE WHEN age IS NOT NULL THEN greatest(
                claimed_at,
                orchestrator.clock() OPERATOR(pg_catalog.-) (age OPERATOR(pg_catalog.*) interval '1 microsecond')
            ) END
        ),
        orchestrator.clock(), aging_us, timeout, worker_id,
        priority, attempt, max_attempts, losses, 'completed', queue, type, payload, idempotency_key,
        result::pg_catalog.jsonb, progress, tags, metadata, trace_context
    FROM gone
    RETURNING id
)
SELECT
    pg_catalog.count(*),
    CASE
        WHEN pg_catalog.count(*) OPERATOR(pg_catalog.<) pg_catalog.cardinality(%(ids)s::bigint[]) THEN pg_catalog.array_agg(id)
    END
FROM done
