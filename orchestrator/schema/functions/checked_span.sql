-- Return a span of time as it was given, or refuse it by the name of its argument: a sum with it beyond what a timestamp
-- holds is an error that names none. The bound is that of Python (task/duration.py). NULL is NULL.
CREATE OR REPLACE FUNCTION orchestrator.checked_span(name text, span interval)
RETURNS interval
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    IF span NOT BETWEEN interval '0' AND interval '100 years' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('the %s is %s; it must lie between 0 and 100 years', name, span),
            HINT = 'Nothing was changed.';
    END IF;
    RETURN span;
END
$$;
