-- The place of a task in the order of execution: its time, in microseconds, later by `aging_us` for each point of
-- priority that it has less than the most. Not a timestamptz: Python cannot load the year 52026. date_part and not
-- extract: extract computes in numeric. PostgreSQL inlines this function, because it sets no search_path.
CREATE OR REPLACE FUNCTION orchestrator.position_of(run_at timestamptz, aging_us bigint, priority integer)
RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT (100 OPERATOR(pg_catalog.-) priority) OPERATOR(pg_catalog.*) aging_us
        OPERATOR(pg_catalog.+) CAST(pg_catalog.date_part('epoch', run_at) OPERATOR(pg_catalog.*) 1000000 AS bigint)
$$;
