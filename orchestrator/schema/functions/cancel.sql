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
    UPDATE orchestrator.tasks AS t SET status = 'cancelled' WHERE t.id = cancel.task_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR004',
            MESSAGE = format('there is no task %s', cancel.task_id),
            HINT = 'It may have been deleted, or removed by retention.';
    END IF;
    PERFORM set_config('orchestrator.reason', '', true);
    RETURN true;
END
$$;
