-- Insert one task whose key, if it has one, is already taken for this id. `due` NULL means now; `item` holds the type
-- and the other options, as the members of an item of enqueue_many(). Integers are checked here: the cast of a wrong
-- one to smallint would be an error that does not name the argument.
CREATE OR REPLACE FUNCTION orchestrator.insert_task(new_id bigint, payload jsonb, due timestamptz, item jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    task record;
    fault text;
BEGIN
    SELECT a.* INTO task
    FROM jsonb_to_record(insert_task.item) AS a (
        type text, key text,
        -- generated: record
        queue text, priority integer, run_at timestamptz, delay interval, max_attempts integer, timeout interval,
        tags text[], metadata jsonb, trace_context jsonb
        -- end
    );
    fault := CASE
        -- generated: smallint faults of task
        WHEN task.priority NOT BETWEEN 0 AND 100
            THEN format('the priority is %s; it must lie between 0 and 100', task.priority)
        WHEN task.max_attempts NOT BETWEEN 1 AND 32767
            THEN format('max_attempts is %s; it must lie between 1 and 32767', task.max_attempts)
        -- end
    END;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'OR006', MESSAGE = fault, HINT = 'Nothing was enqueued.';
    END IF;
    -- attempt = -1 marks the id as drawn, not chosen, for fill_new_task: no producer may write this column.
    INSERT INTO orchestrator.tasks (
        id, type, payload, queue, run_at, idempotency_key, attempt,
        -- generated: simple options
        priority, max_attempts, timeout, tags, metadata, trace_context
        -- end
    )
    VALUES (
        insert_task.new_id, task.type, insert_task.payload, task.queue, insert_task.due, task.key, -1,
        -- generated: written values of task
        task.priority::smallint, task.max_attempts::smallint, task.timeout, task.tags, task.metadata, task.trace_context
        -- end
    );
END
$$;
