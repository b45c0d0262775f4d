-- The command that starts a worker for a queue, for a shell: a name that is not a plain word is quoted.
CREATE OR REPLACE FUNCTION orchestrator.worker_command(queue text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT 'orchestrator worker MODULE:APP --queues '
        || CASE WHEN queue ~ '^[A-Za-z0-9_.-]+$' THEN queue ELSE '''' || replace(queue, '''', '''\''''') || '''' END
$$;
