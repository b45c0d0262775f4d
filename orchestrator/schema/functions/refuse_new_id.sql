-- Row trigger: refuse to renumber a task. An id ahead of the sequence would make a later, correct INSERT fail, and the id
-- of a finished task the end of this one.
CREATE OR REPLACE FUNCTION orchestrator.refuse_new_id()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'OR006',
        MESSAGE = format('task %s: id cannot be changed', OLD.id),
        HINT = 'The database numbers the tasks itself. For a name of your own, use idempotency_key.';
END
$$;
