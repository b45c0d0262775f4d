-- Raise a notice for a task of an undeclared type: a typing error, or a producer that was deployed before its workers.
-- No effect if the type is declared.
CREATE OR REPLACE FUNCTION orchestrator.warn_undeclared(type text)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM orchestrator.types AS t WHERE t.name = warn_undeclared.type) THEN
        RAISE NOTICE USING
            MESSAGE = format('the task type %s is not declared yet', orchestrator.quote_short(warn_undeclared.type)),
            HINT = 'It will wait in its queue until a worker that knows it starts there.';
    END IF;
END
$$;
