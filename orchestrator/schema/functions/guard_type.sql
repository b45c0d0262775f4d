-- Row trigger on types: refuse what the table's constraints refuse, with a readable message. One value that overflows
-- the arithmetic would stop the leader's duties for all types.
CREATE OR REPLACE FUNCTION orchestrator.guard_type()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    fault CONSTANT text := coalesce(
        orchestrator.name_fault('name of the type', NEW.name),
        orchestrator.name_fault('queue', NEW.queue),
        CASE
            -- generated: default faults of NEW
            WHEN NEW.priority NOT BETWEEN 0 AND 100
                THEN format('the priority is %s; it must lie between 0 and 100', NEW.priority)
            WHEN NEW.max_attempts NOT BETWEEN 1 AND 32767
                THEN format('max_attempts is %s; it must lie between 1 and 32767', NEW.max_attempts)
            WHEN NEW.timeout NOT BETWEEN interval '0' AND interval '100 years'
                THEN format('the timeout is %s; it must lie between 0 (none) and 100 years', NEW.timeout)
            -- end
            WHEN NEW.backoff_base NOT BETWEEN interval '0' AND interval '100 years'
                THEN format('backoff_base is %s; it must lie between 0 and 100 years', NEW.backoff_base)
            WHEN NEW.backoff_factor NOT BETWEEN 1 AND 1000
                THEN format('backoff_factor is %s; it must lie between 1 and 1000', NEW.backoff_factor)
            WHEN NEW.backoff_cap NOT BETWEEN interval '0' AND interval '100 years'
                THEN format('backoff_cap is %s; it must lie between 0 and 100 years', NEW.backoff_cap)
            WHEN NEW.backoff_jitter NOT BETWEEN 0 AND 1
                THEN format('backoff_jitter is %s; it must lie between 0 and 1', NEW.backoff_jitter)
        END
    );
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = fault,
            HINT = format('Nothing was changed. It is about the type %s.', orchestrator.quote_short(NEW.name));
    END IF;
    RETURN NEW;
END
$$;
