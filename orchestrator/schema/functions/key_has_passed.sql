-- Whether a task's idempotency key belongs to another task now: the task was cancelled, and another took its key since.
-- Acts on many tasks skip such a task.
CREATE OR REPLACE FUNCTION orchestrator.key_has_passed(task_type text, task_key text, task_id bigint)
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
    SELECT task_key IS NOT NULL AND EXISTS (
        SELECT
        FROM orchestrator.idempotency_keys AS k
        WHERE k.type = task_type AND k.key = task_key AND k.task_id <> key_has_passed.task_id
            AND k.expires_at > orchestrator.clock()
    )
$$;
