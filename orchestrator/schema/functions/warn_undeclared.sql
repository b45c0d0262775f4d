-- Say that a task is of a type nobody has declared: a slip of the pen, or a producer deployed before its workers.
-- Nothing at all where it is declared.
CREATE OR REPLACE FUNCTION orchestrator.warn_undeclared(type text)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM orchestrator.types AS t WHERE t.name = warn_undeclared.type) THEN
        RAISE NOTICE USING
            MESSAGE = format('nobody has declared the task type %s yet', orchestrator.quote_short(warn_undeclared.type)),
            HINT = 'It will wait in its queue until a worker that knows it starts there.';
    END IF;
END
$$;
