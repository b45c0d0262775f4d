-- Statement trigger on INSERT: wake the sleepers who could run what was just inserted. The earliest task of a
-- queue decides: who sleeps past any of them sleeps past that one.
CREATE OR REPLACE FUNCTION orchestrator.ring_for_new_tasks()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    PERFORM orchestrator.ring(ARRAY[n.queue], n.due)
    FROM (
        SELECT t.queue, min(t.run_at) AS due
        FROM new_tasks AS t
        WHERE t.status IN ('pending', 'scheduled')
        GROUP BY t.queue
    ) AS n;
    RETURN NULL;
END
$$;
