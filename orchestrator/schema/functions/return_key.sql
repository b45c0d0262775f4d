-- Give a cancelled task its idempotency key back for its requeue; refuse the requeue if another task has taken the key.
-- If the key has no row, or its window is over, the task runs without the key.
-- Locks: the key's row, after the task's. take_key locks the key and reads tasks without a lock, so the two cannot
-- deadlock. Callers with several keys return them sorted, in the same order as take_key's callers. It writes the row
-- even if the row already names the task: a transaction whose snapshot still shows the task as cancelled then fails
-- with 40001 instead of taking the key.
CREATE OR REPLACE FUNCTION orchestrator.return_key(task_type text, task_key text, returning_id bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    holder bigint;
BEGIN
    SELECT k.task_id INTO holder
    FROM orchestrator.idempotency_keys AS k
    WHERE k.type = task_type AND k.key = task_key AND k.expires_at > orchestrator.clock()
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF holder <> returning_id
        AND EXISTS (SELECT FROM orchestrator.tasks AS t WHERE t.id = holder AND t.status <> 'cancelled')
    THEN
        RAISE EXCEPTION USING
            ERRCODE = '23505',
            MESSAGE = format('task %s was cancelled, and task %s has taken its idempotency key since', returning_id, holder),
            HINT = format('To run task %s again, cancel or delete task %s first.', returning_id, holder);
    END IF;
    UPDATE orchestrator.idempotency_keys AS k
    SET task_id = returning_id
    WHERE k.type = task_type AND k.key = task_key;
END
$$;
