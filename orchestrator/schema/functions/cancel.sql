-- Cancel a task that has not finished; true also if it was cancelled before. audit keeps the reason.
-- A worker that runs the task is fenced off: its later outcome has no effect.
CREATE OR REPLACE FUNCTION orchestrator.cancel(task_id bigint, reason text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    PERFORM orchestrator.ensure_partition();
    PERFORM set_config('orchestrator.reason', coalesce(cancel.reason, ''), true);
    -- If a worker ends the task at this moment, it moves the row to another leaf. The UPDATE, which waited for it, then
    -- finds no row, and the loop tries again. Ends: a task moves this often only if it is requeued each time.
    FOR round IN 1 .. 100 LOOP
        UPDATE orchestrator.tasks AS t SET status = 'cancelled' WHERE t.id = cancel.task_id;
        EXIT WHEN FOUND;
        IF NOT EXISTS (SELECT FROM orchestrator.tasks AS t WHERE t.id = cancel.task_id) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'OR004',
                MESSAGE = format('there is no task %s', coalesce(cancel.task_id::text, 'NULL')),
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
