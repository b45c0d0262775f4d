-- Insert one task whose key, if it has one, is already taken for this id. The integers are judged here, since
-- as smallint a wrong one would end in an error that does not say which argument it was.
CREATE OR REPLACE FUNCTION orchestrator.insert_task(
    new_id bigint, type text, payload jsonb, queue text, priority integer, run_at timestamptz, key text,
    max_attempts integer, timeout interval, tags text[], metadata jsonb, trace_context jsonb
)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    IF insert_task.priority NOT BETWEEN 0 AND 100 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('the priority is %s; it must lie between 0 and 100', insert_task.priority),
            HINT = 'Nothing was enqueued.';
    END IF;
    IF insert_task.max_attempts NOT BETWEEN 1 AND 32767 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('max_attempts is %s; it must lie between 1 and 32767', insert_task.max_attempts),
            HINT = 'Nothing was enqueued.';
    END IF;
    INSERT INTO orchestrator.tasks (
        id, type, payload, queue, priority, run_at, idempotency_key,
        max_attempts, timeout, tags, metadata, trace_context
    )
    VALUES (
        insert_task.new_id, insert_task.type, insert_task.payload, insert_task.queue,
        insert_task.priority::smallint, insert_task.run_at, insert_task.key,
        insert_task.max_attempts::smallint, insert_task.timeout, insert_task.tags,
        insert_task.metadata, insert_task.trace_context
    );
END
$$;
