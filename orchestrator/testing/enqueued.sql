-- The tasks that wait or run, the oldest first. In: type, or NULL for all; expected, a JSON object or NULL: members the
-- payload must have, each equal as jsonb is equal (1 is 1.0, and true is not 1); row_limit. Out: one row a task.
-- It runs in the caller's transaction, so it sees the tasks that this transaction has enqueued. Locks nothing.
SELECT t.id, t.type, t.queue, CAST(t.payload AS text), t.status, t.priority, t.run_at, t.attempt, t.max_attempts,
    t.idempotency_key, CAST(to_jsonb(t.tags) AS text), CAST(t.metadata AS text)
FROM orchestrator.tasks AS t
WHERE t.status IN ('scheduled', 'blocked', 'pending', 'claimed', 'running')
    AND (CAST(%(type)s AS text) IS NULL OR t.type = CAST(%(type)s AS text))
    AND NOT EXISTS (
        SELECT
        FROM jsonb_each(CAST(%(expected)s AS jsonb)) AS e
        WHERE t.payload -> e.key IS DISTINCT FROM e.value
    )
ORDER BY t.id
LIMIT CAST(CAST(%(row_limit)s AS text) AS bigint)
