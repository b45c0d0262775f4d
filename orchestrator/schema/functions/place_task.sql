-- Row trigger: keep the position right when something changes that it is made of, and the number of attempts sensible.
-- SECURITY DEFINER, because only our own functions may call position_of.
CREATE OR REPLACE FUNCTION orchestrator.place_task()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    IF NEW.max_attempts < 1 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('task %s: max_attempts is %s; it must lie between 1 and 32767', OLD.id, NEW.max_attempts),
            HINT = 'To stop the task, set status = ''cancelled''.';
    END IF;
    NEW.position := orchestrator.position_of(NEW.run_at, NEW.aging_us, NEW.priority);
    RETURN NEW;
END
$$;
