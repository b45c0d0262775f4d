-- Enqueue one task and return its id. If another task has the key, return that task's id.
-- Options that are not given come from the type, then the queue, then the built-in default.
-- One query finds the defaults and writes the complete row into its leaf, past the root's triggers. If anything is
-- unusual, the row goes through the triggers instead: fill_new_task names the fault, or accepts the row.
CREATE OR REPLACE FUNCTION orchestrator.enqueue(
    type text,
    payload jsonb DEFAULT '{}',
    -- generated: arguments
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    key text DEFAULT NULL,
    key_window interval DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    timeout interval DEFAULT NULL,
    tags text[] DEFAULT NULL,
    metadata jsonb DEFAULT NULL,
    trace_context jsonb DEFAULT NULL
    -- end
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    new_id bigint := nextval('orchestrator.tasks_id_seq');
    due timestamptz := coalesce(enqueue.run_at, orchestrator.clock());
    holder bigint;
    plain boolean := true;
    into_queue text;
    awaited boolean;
BEGIN
    IF enqueue.run_at IS NOT NULL AND enqueue.delay IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'OR006', MESSAGE = 'run_at and delay were both given', HINT = 'Give one of them.';
    END IF;
    IF enqueue.key IS NOT NULL AND char_length(enqueue.type) BETWEEN 1 AND 200 AND char_length(enqueue.key) BETWEEN 1 AND 500 THEN
        holder := orchestrator.take_key(
            enqueue.type, enqueue.key, new_id, coalesce(enqueue.key_window, interval '24 hours')
        );
        IF holder <> new_id THEN
            RETURN holder;
        END IF;
    END IF;
    -- Apart from the rest: each transaction pays for an expression anew, by its length, whether it is used or not.
    IF num_nonnulls(
        enqueue.run_at, enqueue.delay, enqueue.key,
        -- generated: simple options of enqueue
        enqueue.priority, enqueue.max_attempts, enqueue.timeout, enqueue.tags, enqueue.metadata, enqueue.trace_context
        -- end
    ) <> 0 THEN
        IF enqueue.delay IS NOT NULL THEN
            due := orchestrator.clock() + orchestrator.checked_span('delay', enqueue.delay);
        END IF;
        plain := (
            due BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'
            AND (enqueue.key IS NULL OR char_length(enqueue.key) BETWEEN 1 AND 500)
            -- generated: valid arguments of enqueue
            AND (enqueue.priority IS NULL OR enqueue.priority BETWEEN 0 AND 100)
            AND (enqueue.max_attempts IS NULL OR enqueue.max_attempts BETWEEN 1 AND 32767)
            AND (enqueue.timeout IS NULL OR enqueue.timeout BETWEEN interval '0' AND interval '100 years')
            -- end
            AND num_nonnulls(
                -- generated: careful options of enqueue
                enqueue.tags, enqueue.metadata, enqueue.trace_context
                -- end
            ) = 0
        );
    END IF;
    IF plain THEN
        INSERT INTO orchestrator.tasks_live AS n (
            id, type, payload, queue, status,
            -- generated: defaulted columns
            priority, max_attempts, timeout,
            -- end
            run_at, aging_us, position, idempotency_key
        )
        SELECT
            new_id, t.name, enqueue.payload, q.name,
            CASE WHEN due > orchestrator.clock() THEN 'scheduled' ELSE 'pending' END,
            -- generated: values of enqueue
            coalesce(enqueue.priority, t.priority, q.priority, 50),
            coalesce(enqueue.max_attempts, t.max_attempts, q.max_attempts, 4),
            coalesce(enqueue.timeout, t.timeout, q.timeout, interval '300 seconds'),
            -- end
            due,
            (date_part('epoch', q.aging) * 1000000)::bigint,
            orchestrator.position_of(
                due,
                (date_part('epoch', q.aging) * 1000000)::bigint,
                -- generated: priority of enqueue
                coalesce(enqueue.priority, t.priority, q.priority, 50)
                -- end
            ),
            enqueue.key
        FROM orchestrator.types AS t
        JOIN orchestrator.queues AS q ON q.name = coalesce(enqueue.queue, t.queue)
        WHERE t.name = enqueue.type AND q.state <> 'draining'
            AND jsonb_typeof(enqueue.payload) = 'object' AND octet_length(enqueue.payload::text) <= 128
        RETURNING n.queue, EXISTS (
            SELECT
            FROM orchestrator.workers AS w
            WHERE w.state IN ('running', 'draining') AND w.idle_until > greatest(orchestrator.clock(), due) AND n.queue = ANY (w.queues)
        )
        INTO into_queue, awaited;
        IF FOUND THEN
            IF awaited THEN
                PERFORM orchestrator.ring(ARRAY[into_queue], due);
            END IF;
            RETURN new_id;
        END IF;
    END IF;
    PERFORM orchestrator.insert_task(new_id, enqueue.payload, due, jsonb_build_object(
        'type', enqueue.type, 'queue', enqueue.queue, 'key', enqueue.key,
        -- generated: item of enqueue
        'priority', enqueue.priority, 'max_attempts', enqueue.max_attempts, 'timeout', enqueue.timeout,
        'tags', enqueue.tags, 'metadata', enqueue.metadata, 'trace_context', enqueue.trace_context
        -- end
    ));
    RETURN new_id;
END
$$;
