-- Return a span of time unchanged, or refuse it and name its argument: an overflow in a later sum would be an error
-- that names no argument. The bound is the same as in Python (task/duration.py). NULL stays NULL.
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
