-- Make the leaf of tasks_done for a UTC day, if it is missing; returns its name. CREATE + ATTACH and not
-- CREATE … PARTITION OF: workers can finish tasks while ATTACH runs (SHARE UPDATE EXCLUSIVE on tasks_done, which also
-- serialises two calls of this function).
CREATE OR REPLACE FUNCTION orchestrator.ensure_partition(day date DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    the_day CONSTANT date := coalesce(day, (orchestrator.clock() AT TIME ZONE 'UTC')::date);
    leaf text;
BEGIN
    IF the_day NOT BETWEEN '1970-01-01' AND '9000-01-01' THEN
        RAISE EXCEPTION USING ERRCODE = 'OR006', MESSAGE = format('the day is %s; it must lie between the years 1970 and 9000', the_day);
    END IF;
    leaf := 'tasks_done_' || to_char(the_day, 'YYYYMMDD');
    IF to_regclass(format('orchestrator.%I', leaf)) IS NOT NULL THEN
        RETURN leaf;
    END IF;
    LOCK TABLE ONLY orchestrator.tasks_done IN SHARE UPDATE EXCLUSIVE MODE;
    IF to_regclass(format('orchestrator.%I', leaf)) IS NOT NULL THEN
        RETURN leaf;
    END IF;
    EXECUTE format(
        'CREATE TABLE orchestrator.%I (LIKE orchestrator.tasks_done INCLUDING DEFAULTS INCLUDING GENERATED'
        ' INCLUDING CONSTRAINTS, CONSTRAINT %I PRIMARY KEY (id))',
        leaf, leaf || '_pkey'
    );
    EXECUTE format(
        'ALTER TABLE orchestrator.tasks_done ATTACH PARTITION orchestrator.%I FOR VALUES FROM (%L) TO (%L)',
        leaf, the_day::timestamp AT TIME ZONE 'UTC', (the_day + 1)::timestamp AT TIME ZONE 'UTC'
    );
    RETURN leaf;
END
$$;
