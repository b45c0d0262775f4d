-- Write the successes of plain tasks: each row leaves tasks_live and enters today's leaf of tasks_done, if its lease
-- still holds. complete_all.sql handles tasks that hold permits or feed gates.
-- In: ids, leases, results (JSON text or NULL; NULL for all: no results), ages (µs since the handler started),
-- pairwise, sorted by id. Out: one row: how many were accepted, and their ids if not all were. One row for each id
-- would cost driver and server 0.3 µs each. The error of an earlier attempt is cleared.
-- Locks: the task rows, in the order of the ids. Path: tasks_live_pkey. The statement does not name worker_id and
-- status, so that no plan can use a partial index instead (docs/decisions/0002-find-the-tasks-of-a-worker.md).
-- DELETE + INSERT and not an UPDATE of status: moving a row between leaves makes every concurrent writer of it
-- fail with 40001, even in READ COMMITTED.
-- This statement also ends a handler's own transaction. There, other schemas may come first in the search_path: so
-- every name is qualified.
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
    WHERE t.id OPERATOR(pg_catalog.=) g.id AND t.lease OPERATOR(pg_catalog.=) g.lease AND t.holds IS NULL
    RETURNING
        -- generated: kept when plain of t
        t.id, t.position, t.run_at, t.created_at, t.claimed_at, t.deadline, t.parent_id, t.aging_us, t.timeout,
        t.worker_id, t.priority, t.attempt, t.max_attempts, t.queue, t.type, t.payload, t.idempotency_key, t.progress,
        t.tags, t.metadata, t.trace_context,
        -- end
        t.lease, t.losses, t.started_at, g.result, g.age
),
done AS (
    INSERT INTO orchestrator.tasks_done (
        -- generated: kept when plain
        id, position, run_at, created_at, claimed_at, deadline, parent_id, aging_us, timeout, worker_id, priority,
        attempt, max_attempts, queue, type, payload, idempotency_key, progress, tags, metadata, trace_context,
        -- end
        lease, losses, started_at, finished_at, status, result
    )
    SELECT
        -- generated: kept when plain
        id, position, run_at, created_at, claimed_at, deadline, parent_id, aging_us, timeout, worker_id, priority,
        attempt, max_attempts, queue, type, payload, idempotency_key, progress, tags, metadata, trace_context,
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
    END
FROM done
