-- Statement trigger on INSERT: wake the sleepers who could run what was just inserted.
CREATE OR REPLACE FUNCTION orchestrator.ring_for_new_tasks()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    PERFORM orchestrator.ring(array_agg(n.queue), n.due)
    FROM (SELECT DISTINCT t.queue, t.run_at AS due FROM new_tasks AS t WHERE t.status IN ('pending', 'scheduled')) AS n
    GROUP BY n.due;
    RETURN NULL;
END
$$;
