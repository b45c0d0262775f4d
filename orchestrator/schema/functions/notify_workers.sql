-- Notify workers that their rows or tasks have changed, so that they look at once. A hint, like every notification.
CREATE OR REPLACE FUNCTION orchestrator.notify_workers(worker_ids uuid[])
RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT pg_notify('orchestrator_workers', c.worker_id::text)
    FROM (SELECT DISTINCT unnest(notify_workers.worker_ids) AS worker_id) AS c
    WHERE c.worker_id IS NOT NULL
$$;
