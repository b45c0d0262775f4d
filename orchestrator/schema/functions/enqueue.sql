-- Enqueue one task and return its id; with a key that is taken, the id of the task that has it.
-- What is left out comes from the type, then the queue, then the house.
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
    holder bigint;
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
    PERFORM orchestrator.insert_task(
        new_id, enqueue.type, enqueue.payload, enqueue.queue, enqueue.priority,
        coalesce(enqueue.run_at, orchestrator.clock() + enqueue.delay), enqueue.key,
        enqueue.max_attempts, enqueue.timeout, enqueue.tags, enqueue.metadata, enqueue.trace_context
    );
    RETURN new_id;
END
$$;
