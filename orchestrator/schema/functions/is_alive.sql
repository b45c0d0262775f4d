-- Whether a worker is alive: it has not ended, its last beat is younger than its own dead_after, and its beacon is not
-- lost. Views and statements that show workers use this one definition. The leader takes tasks back by the same
-- dead_after, but watches a worker for a while first (maintain/recover.sql). For a role that may not read beacons, the
-- beat alone decides.
CREATE OR REPLACE FUNCTION orchestrator.is_alive(worker_id uuid)
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT EXISTS (
        SELECT
        FROM orchestrator.workers AS w
        WHERE w.id = is_alive.worker_id AND w.state IN ('running', 'draining')
            AND w.beat_at > orchestrator.clock() - w.dead_after
            AND NOT orchestrator.beacon_is_lost(w.id)
    )
$$;
