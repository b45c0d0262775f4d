-- Drain a worker: it claims no more, finishes the tasks that it runs, gives back the others after its grace, and ends.
-- Returns false if it is ending already. audit keeps the reason.
CREATE OR REPLACE FUNCTION orchestrator.drain_worker(worker_id uuid, reason text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    UPDATE orchestrator.workers AS w SET state = 'draining' WHERE w.id = drain_worker.worker_id AND w.state = 'running';
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM orchestrator.workers AS w WHERE w.id = drain_worker.worker_id) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'OR007',
                MESSAGE = format('there is no worker %s', drain_worker.worker_id),
                HINT = 'SELECT id, host, pid FROM orchestrator.live_workers; lists those that live.';
        END IF;
        RETURN false;
    END IF;
    INSERT INTO orchestrator.audit (action, reason, details)
    VALUES ('drain_worker', drain_worker.reason, jsonb_build_object('worker_id', drain_worker.worker_id));
    PERFORM orchestrator.notify_workers(ARRAY[drain_worker.worker_id]);
    RETURN true;
END
$$;
