-- Claim up to `batch_size` ready tasks for one worker, under one lease, in the order of position.
-- In: queues, in the order to look at them. limits: the most tasks to take of each queue (shares.py); NULL: no limit
--     but batch_size. from_…, to_…: the range of the order to look at in each queue, without its ends
--     (scan_positions.py); NULL: all of it (to send nothing saves a tenth of a claim that finds one task). A queue may
--     come several times, with its ranges in order; its limit then holds for each range. batch_size; lease (random, new
--     for each statement); worker_id. payload_bytes: a payload that is larger as stored comes as empty text, which is
--     no JSON (batch.py). Out: the claimed rows.
-- Locks: the claimed rows, SKIP LOCKED. Path: tasks_live_claim_idx once for each queue, stopping at the outer limit.
-- The rows are named by ctid, through an array: they are locked, so their ctid holds, and no plan can turn a join into
-- a sequential scan. The look into queues makes a pause hold at once; a queue without a row is active. It is no join:
-- a hash join may read queues first, and the queues then come in the order of that table, not in the caller's.
-- A worker that was declared dead claims nothing: it does not know that yet, and would lose again what it claims.
-- The same holds for a worker that is registered in another place, and for tables that are not at home: in a restored
-- dump nothing runs before an operator resumes it.
-- `error` may hold any text that an operator's statement wrote. So it is checked before the cast: one bad row must not
-- make every claim fail.
-- Commits without waiting for the disk: a claim is a hint. The lease is random, so a lease that a server crash forgot
-- is never taken for a later one.
WITH hint AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
)
UPDATE orchestrator.tasks_live AS t
SET status = 'claimed',
    lease = %(lease)s,
    worker_id = %(worker_id)s,
    claimed_at = orchestrator.clock(),
    started_at = NULL,
    attempt = t.attempt + 1
FROM hint
WHERE t.ctid = ANY (ARRAY(
    SELECT found.ctid
    FROM orchestrator.workers AS me
    CROSS JOIN unnest(
        %(queues)s::text[], %(limits)s::bigint[], %(from_positions)s::bigint[], %(from_ids)s::bigint[], %(to_positions)s::bigint[], %(to_ids)s::bigint[]
    ) AS wanted (queue, most, from_position, from_id, to_position, to_id)
    CROSS JOIN LATERAL (
        SELECT ready.ctid
        FROM orchestrator.tasks_live AS ready
        WHERE ready.queue = wanted.queue AND ready.status = 'pending' AND ready.lane IS NULL
            AND (ready.position, ready.id) > (coalesce(wanted.from_position, -9223372036854775808), coalesce(wanted.from_id, 0))
            AND (ready.position, ready.id) < (coalesce(wanted.to_position, 9223372036854775807), coalesce(wanted.to_id, 0))
        ORDER BY ready.position, ready.id
        LIMIT coalesce(wanted.most, %(batch_size)s)
        FOR UPDATE SKIP LOCKED
    ) AS found
    WHERE me.id = %(worker_id)s AND me.state IN ('running', 'draining') AND me.workplace = me.tableoid
        AND coalesce((SELECT q.state FROM orchestrator.queues AS q WHERE q.name = wanted.queue), 'active') <> 'paused'
    LIMIT %(batch_size)s
))
RETURNING t.id, t.lease, t.queue, t.type, t.attempt, t.max_attempts, t.losses,
    date_part('epoch', t.timeout) AS timeout_seconds,
    CASE WHEN pg_column_size(t.payload) <= %(payload_bytes)s THEN t.payload::text ELSE '' END AS payload, t.tags, t.metadata::text AS metadata,
    CASE WHEN t.error IS NOT NULL THEN
        CASE WHEN t.error ->> 'put_back' ~ '^[0-9]{1,9}$' THEN (t.error ->> 'put_back')::integer ELSE 0 END
    END AS put_back, t.position,
    greatest(date_part('epoch', t.claimed_at - t.run_at), 0) AS waited_seconds, t.trace_context::text AS trace_context
