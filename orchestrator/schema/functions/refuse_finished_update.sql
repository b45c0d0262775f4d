-- Row trigger on finished tasks: refuse a change of what the task was enqueued with. Nothing reads these columns there
-- any more, so the change would be lost or would falsify the record. The statement that requeues the task may change
-- them: the trigger's WHEN lets a new status through.
CREATE OR REPLACE FUNCTION orchestrator.refuse_finished_update()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    changed text;
BEGIN
    SELECT string_agg(n.key, ', ' ORDER BY n.key) INTO changed
    FROM jsonb_each(to_jsonb(NEW)) AS n
    WHERE n.value IS DISTINCT FROM to_jsonb(OLD) -> n.key AND n.key <> 'position';
    RAISE EXCEPTION USING
        ERRCODE = 'OR001',
        MESSAGE = format('task %s is %s; %s cannot be changed any more', OLD.id, OLD.status, changed),
        HINT = format(
            'Requeue it with the change: UPDATE orchestrator.tasks SET status = ''pending'', %s = … WHERE id = %s',
            replace(changed, ', ', ' = …, '), OLD.id
        );
END
$$;
