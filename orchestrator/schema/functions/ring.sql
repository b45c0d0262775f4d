-- Wake the sleepers of these queues: one NOTIFY for each queue on which some worker is idle, none otherwise,
-- because a NOTIFY makes its transaction's commit wait for every other's. `due` names the moment the tasks
-- become ready; who is going to wake before it anyway is left asleep. Carries no data but the queue.
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
