-- Stop a worker without its grace: it claims no more, as after drain_worker, and its tasks go to others at once, with
-- fresh attempts. It cancels its handlers; their outcomes have no effect. Returns how many tasks were given back: 0 for
-- an idle worker, or one that is gone.
-- Locks: the worker's row, then task rows. Path: tasks_live_worker_idx.
CREATE OR REPLACE FUNCTION orchestrator.stop_worker(worker_id uuid, reason text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    given_back bigint;
BEGIN
    PERFORM orchestrator.drain_worker(stop_worker.worker_id, stop_worker.reason);
    PERFORM set_config('orchestrator.reason', coalesce(stop_worker.reason, 'its worker was stopped'), true);
    UPDATE orchestrator.tasks AS t
    SET status = 'pending'
    WHERE t.worker_id = stop_worker.worker_id AND t.status IN ('claimed', 'running');
    GET DIAGNOSTICS given_back = ROW_COUNT;
    PERFORM set_config('orchestrator.reason', '', true);
    RETURN given_back;
END
$$;
