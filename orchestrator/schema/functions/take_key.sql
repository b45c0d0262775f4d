-- Take an idempotency key for a task, or learn who has it. Returns the id of the holder: the given task's when
-- the key was free, expired, or its task is gone or cancelled; another's otherwise. Nothing frees a key at the cancel
-- itself: however a task is cancelled, the next taker sees it here. return_key gives the key back at a requeue.
-- Waits for a transaction that is just taking the same key. Callers with several keys take them sorted. A key that
-- is simply taken is learned without a lock: else each enqueue with it would wait for the one before to commit.
-- All it asks has its index; a plan kept from when the tables were empty would read them from end to end.
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
            MESSAGE = 'key_window must be longer than nothing, and at most 100 years',
            HINT = 'Leave the key out if the task may be enqueued twice.';
    END IF;
    -- An entry of the index on both has at most 2,704 bytes; 500 characters may have 2,000, and those of a type 800.
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
    -- Asked apart: a key that nobody has yet, the usual one, must not cost a look into every leaf.
    IF FOUND AND EXISTS (SELECT FROM orchestrator.tasks AS t WHERE t.id = holder AND t.status <> 'cancelled') THEN
        RETURN holder;
    END IF;
    -- Ends: each round either answers, or somebody else changed this very key since the round began.
    FOR round IN 1 .. 100 LOOP
        -- The WHERE may look at the key's own row only: after waiting for another transaction, a subquery
        -- would still see the tasks of before it, think them gone, and hand the key out twice.
        -- Found or not, the key's row is locked from here on, so a requeue of the holder waits in return_key.
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
        MESSAGE = 'the idempotency key kept changing hands while it was being taken',
        HINT = 'Try again.';
END
$$;
