-- Return how many rows a call may take, or refuse the number: a negative LIMIT is an error that names no argument, and a NULL
-- one takes all rows there are.
CREATE OR REPLACE FUNCTION orchestrator.row_limit(at_most bigint)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    IF at_most IS NULL OR at_most < 0 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('at_most is %s; it must be a number of rows, 0 or more', coalesce(at_most::text, 'NULL')),
            HINT = 'Nothing was changed.';
    END IF;
    RETURN at_most;
END
$$;
