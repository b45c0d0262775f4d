-- Open a paused or draining queue again. Returns the new state.
CREATE OR REPLACE FUNCTION orchestrator.resume_queue(queue text, reason text DEFAULT NULL)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$ SELECT orchestrator.set_queue_state(queue, 'active', reason) $$;
