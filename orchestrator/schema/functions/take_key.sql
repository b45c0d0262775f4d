-- Take an idempotency key for a task. Returns the id of the holder: this task's if the key was free or expired, or if
-- its task is deleted or cancelled; another task's otherwise. A cancel does not free the key itself: however a task is
-- cancelled, the next call sees it here. return_key gives the key back at a requeue.
-- Waits for a transaction that is just taking the same key. Callers with several keys take them sorted. A key that
-- another task has is read without a lock: else each enqueue with it would wait for the previous one to commit.
-- Every query has its index; a plan kept from a time when the tables were empty would read them from end to end.
CREATE OR REPLACE FUNCTION orchestrator.take_key(task_type text, task_key text, new_id bigint, key_window interval)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    holder bigint;
BEGIN
    IF key_window <= interval '0' OR key_window > interval '100 years' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('key_window is %s; it must be longer than 0, and at most 100 years', key_window),
            HINT = 'Leave the key out if the task may be enqueued twice.';
    END IF;
    -- An entry of the index on both has at most 2,704 bytes; 500 characters may have 2,000 bytes, and those of a type
    -- 800.
    IF octet_length(task_type) + octet_length(task_key) > 2600 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format(
                'the type and the idempotency key have %s bytes together; at most 2600 are allowed',
                octet_length(task_type) + octet_length(task_key)
            ),
            HINT = 'Nothing was enqueued.';
    END IF;
    SELECT k.task_id INTO holder
    FROM orchestrator.idempotency_keys AS k
    WHERE k.type = task_type AND k.key = task_key AND k.expires_at > orchestrator.clock();
    -- A separate query: a key that no task has yet, the usual case, must not cost a read of every leaf.
    IF FOUND AND EXISTS (SELECT FROM orchestrator.tasks AS t WHERE t.id = holder AND t.status <> 'cancelled') THEN
        RETURN holder;
    END IF;
    -- Ends: each round returns, unless another transaction changed this key since the round began.
    FOR round IN 1 .. 100 LOOP
        -- The WHERE may read only the key's own row: after a wait for another transaction, a subquery would not see
        -- that transaction's tasks, would treat them as deleted, and the key would be given out twice.
        -- From here on the key's row is locked, found or not, so a requeue of the holder waits in return_key.
        INSERT INTO orchestrator.idempotency_keys AS k (type, key, task_id, expires_at)
        VALUES (task_type, task_key, new_id, orchestrator.clock() + key_window)
        ON CONFLICT (type, key) DO UPDATE
            SET task_id = excluded.task_id, expires_at = excluded.expires_at
            WHERE k.expires_at <= orchestrator.clock();
        IF FOUND THEN
            RETURN new_id;
        END IF;
        SELECT k.task_id INTO holder
        FROM orchestrator.idempotency_keys AS k
        WHERE k.type = task_type AND k.key = task_key;
        CONTINUE WHEN NOT FOUND;
        IF holder = new_id
            OR EXISTS (SELECT FROM orchestrator.tasks AS t WHERE t.id = holder AND t.status <> 'cancelled')
        THEN
            RETURN holder;
        END IF;
        UPDATE orchestrator.idempotency_keys AS k
        SET task_id = new_id, expires_at = orchestrator.clock() + key_window
        WHERE k.type = task_type AND k.key = task_key AND k.task_id = holder;
        IF FOUND THEN
            RETURN new_id;
        END IF;
    END LOOP;
    RAISE EXCEPTION USING
        ERRCODE = '40001',
        MESSAGE = 'other transactions took and released this idempotency key again and again',
        HINT = 'Try again.';
END
$$;
