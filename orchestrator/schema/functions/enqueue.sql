-- Enqueue one task and return its id; with a key that is taken, the id of the task that has it.
-- What is left out comes from the type, then the queue, then the house.
-- One query finds all that, and the row goes complete into its leaf, past the root's triggers. Where anything is
-- unusual it goes through them instead: fill_new_task knows what is wrong, if anything is.
CREATE OR REPLACE FUNCTION orchestrator.enqueue(
    type text,
    payload jsonb DEFAULT '{}',
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
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    new_id bigint := nextval('orchestrator.tasks_id_seq');
    due timestamptz := coalesce(enqueue.run_at, orchestrator.clock() + enqueue.delay, orchestrator.clock());
    holder bigint;
    task record;
BEGIN
    IF enqueue.run_at IS NOT NULL AND enqueue.delay IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'OR006', MESSAGE = 'run_at and delay were both given', HINT = 'Give one of them.';
    END IF;
    IF enqueue.key IS NOT NULL AND coalesce(enqueue.type, '') <> '' AND char_length(enqueue.key) BETWEEN 1 AND 500 THEN
        holder := orchestrator.take_key(
            enqueue.type, enqueue.key, new_id, coalesce(enqueue.key_window, interval '24 hours')
        );
        IF holder <> new_id THEN
            RETURN holder;
        END IF;
    END IF;
    SELECT
        n.queue,
        coalesce(enqueue.priority, t.priority, q.priority, 50) AS priority,
        coalesce(enqueue.max_attempts, t.max_attempts, q.max_attempts, 4) AS max_attempts,
        coalesce(enqueue.timeout, t.timeout, q.timeout, interval '300 seconds') AS timeout,
        (date_part('epoch', coalesce(q.aging, interval '1000 years')) * 1000000)::bigint AS aging_us,
        t.name IS NOT NULL AND q.state IS DISTINCT FROM 'draining' AS plain,
        EXISTS (
            SELECT
            FROM orchestrator.workers AS w
            WHERE w.state IN ('running', 'draining') AND w.idle_until > greatest(orchestrator.clock(), due) AND n.queue = ANY (w.queues)
        ) AS awaited
    INTO task
    FROM (SELECT) AS one
    LEFT JOIN orchestrator.types AS t ON t.name = enqueue.type
    CROSS JOIN LATERAL (SELECT coalesce(enqueue.queue, t.queue, 'default') AS queue) AS n
    LEFT JOIN orchestrator.queues AS q ON q.name = n.queue;
    IF (
        task.plain
        AND char_length(enqueue.type) BETWEEN 1 AND 200 AND enqueue.type !~ '[[:cntrl:]]'
        AND char_length(task.queue) BETWEEN 1 AND 200 AND task.queue !~ '[[:cntrl:]]'
        AND task.priority BETWEEN 0 AND 100
        AND task.max_attempts BETWEEN 1 AND 32767
        AND task.timeout BETWEEN interval '0' AND interval '100 years'
        AND due BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'
        AND (enqueue.key IS NULL OR char_length(enqueue.key) BETWEEN 1 AND 500)
        AND (
            enqueue.tags IS NULL
            OR array_position(enqueue.tags, NULL) IS NULL AND cardinality(enqueue.tags) <= 100
            AND octet_length(array_to_string(enqueue.tags, '')) <= 200
        )
        AND jsonb_typeof(enqueue.payload) = 'object'
        AND (octet_length(enqueue.payload::text) <= 128 OR orchestrator.check_payload(enqueue.payload))
        AND (enqueue.metadata IS NULL OR orchestrator.check_payload(enqueue.metadata, 'metadata'))
        AND (enqueue.trace_context IS NULL OR orchestrator.check_payload(enqueue.trace_context, 'trace_context'))
    ) IS NOT TRUE
    THEN
        PERFORM orchestrator.insert_task(
            new_id, enqueue.type, enqueue.payload, enqueue.queue, enqueue.priority, due, enqueue.key,
            enqueue.max_attempts, enqueue.timeout, enqueue.tags, enqueue.metadata, enqueue.trace_context
        );
        RETURN new_id;
    END IF;
    INSERT INTO orchestrator.tasks_live (
        id, type, payload, queue, status, priority, run_at, aging_us, max_attempts, timeout, idempotency_key,
        tags, metadata, trace_context
    )
    VALUES (
        new_id, enqueue.type, enqueue.payload, task.queue,
        CASE WHEN due > orchestrator.clock() THEN 'scheduled' ELSE 'pending' END,
        task.priority, due, task.aging_us, task.max_attempts, task.timeout, enqueue.key,
        enqueue.tags, enqueue.metadata, enqueue.trace_context
    );
    IF task.awaited THEN
        PERFORM orchestrator.ring(ARRAY[task.queue], due);
    END IF;
    RETURN new_id;
END
$$;
