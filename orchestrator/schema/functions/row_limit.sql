-- Return the number of rows that a call may take, or refuse it: a negative LIMIT is an error that names no argument,
-- and LIMIT NULL takes all rows.
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
