-- Row trigger on queues: refuse what the table's constraints refuse, with a readable message. One value that overflows
-- the arithmetic would stop retention for all queues.
CREATE OR REPLACE FUNCTION orchestrator.guard_queue()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    fault CONSTANT text := coalesce(
        orchestrator.name_fault('name of the queue', NEW.name),
        CASE
            WHEN NEW.state NOT IN ('active', 'paused', 'draining')
                THEN format('the state is %s; it must be active, paused or draining', orchestrator.quote_short(NEW.state))
            WHEN NEW.state_since NOT BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'
                THEN format('state_since is %s; it must lie between the years 1970 and 9000', NEW.state_since)
            -- generated: default faults of NEW
            WHEN NEW.priority NOT BETWEEN 0 AND 100
                THEN format('the priority is %s; it must lie between 0 and 100', NEW.priority)
            WHEN NEW.max_attempts NOT BETWEEN 1 AND 32767
                THEN format('max_attempts is %s; it must lie between 1 and 32767', NEW.max_attempts)
            WHEN NEW.timeout NOT BETWEEN interval '0' AND interval '100 years'
                THEN format('the timeout is %s; it must lie between 0 (none) and 100 years', NEW.timeout)
            -- end
            WHEN NEW.aging NOT BETWEEN interval '0' AND interval '1000 years'
                THEN format('aging is %s; it must lie between 0 and 1000 years', NEW.aging)
            WHEN NEW.keep_finished NOT BETWEEN interval '0' AND interval '1000 years'
                THEN format('keep_finished is %s; it must lie between 0 and 1000 years', NEW.keep_finished)
            WHEN NEW.keep_dead NOT BETWEEN interval '0' AND interval '1000 years'
                THEN format('keep_dead is %s; it must lie between 0 and 1000 years', NEW.keep_dead)
        END
    );
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = fault,
            HINT = format('Nothing was changed. It is about the queue %s.', orchestrator.quote_short(NEW.name));
    END IF;
    RETURN NEW;
END
$$;
