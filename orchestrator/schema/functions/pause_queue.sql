-- Pause a queue: workers claim none of its tasks; running tasks go on, new tasks are accepted and wait. Returns the new
-- state.
CREATE OR REPLACE FUNCTION orchestrator.pause_queue(queue text, reason text DEFAULT NULL)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$ SELECT orchestrator.set_queue_state(queue, 'paused', reason) $$;
