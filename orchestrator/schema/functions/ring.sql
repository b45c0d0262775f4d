-- Wake the sleeping workers of these queues: one NOTIFY for each queue that has a sleeping worker, none otherwise,
-- because the commit of a transaction with a NOTIFY waits for all others with one. `due` is the moment when the tasks
-- become ready; a worker that wakes by itself before it does not count. A notification carries only the queue.
CREATE OR REPLACE FUNCTION orchestrator.ring(queues text[], due timestamptz DEFAULT NULL)
RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT pg_notify('orchestrator', q.name)
    FROM (SELECT DISTINCT unnest(ring.queues) AS name) AS q
    WHERE EXISTS (
        SELECT
        FROM orchestrator.workers AS w
        WHERE w.state IN ('running', 'draining') AND w.idle_until > greatest(orchestrator.clock(), ring.due) AND q.name = ANY (w.queues)
    )
$$;
