-- Cancel a task that has not finished; true also when it was cancelled before. The reason is kept in audit.
-- A worker that is running it is fenced off: what it writes afterwards counts for nothing.
CREATE OR REPLACE FUNCTION orchestrator.cancel(task_id bigint, reason text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    PERFORM orchestrator.ensure_partition();
    PERFORM set_config('orchestrator.reason', coalesce(cancel.reason, ''), true);
    -- A worker that ends the task at this moment moves its row to another leaf: then the UPDATE, which had waited for it,
    -- finds nothing, and looks again. Ends: a task moves as often only if somebody requeues it each time.
    FOR round IN 1 .. 100 LOOP
        UPDATE orchestrator.tasks AS t SET status = 'cancelled' WHERE t.id = cancel.task_id;
        EXIT WHEN FOUND;
        IF NOT EXISTS (SELECT FROM orchestrator.tasks AS t WHERE t.id = cancel.task_id) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'OR004',
                MESSAGE = format('there is no task %s', cancel.task_id),
                HINT = 'It may have been deleted, or removed by retention.';
        ELSIF round = 100 THEN
            RAISE EXCEPTION USING
                ERRCODE = '40001',
                MESSAGE = format('task %s kept moving while it was looked for', cancel.task_id),
                HINT = 'Try again.';
        END IF;
    END LOOP;
    PERFORM set_config('orchestrator.reason', '', true);
    RETURN true;
END
$$;
