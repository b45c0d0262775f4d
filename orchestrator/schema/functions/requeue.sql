-- Run one finished, cancelled, dead-lettered or stuck task again, with fresh attempts. The same as
-- UPDATE orchestrator.tasks SET status = 'pending' WHERE id = …, but an unknown id is an error and a reason is kept.
CREATE OR REPLACE FUNCTION orchestrator.requeue(task_id bigint, reason text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    PERFORM set_config('orchestrator.reason', coalesce(requeue.reason, ''), true);
    UPDATE orchestrator.tasks AS t SET status = 'pending' WHERE t.id = requeue.task_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR004',
            MESSAGE = format('there is no task %s', requeue.task_id),
            HINT = 'It may have been deleted, or removed by retention.';
    END IF;
    PERFORM set_config('orchestrator.reason', '', true);
    RETURN true;
END
$$;
