-- Drain a queue: it refuses new tasks, and workers finish the tasks that it has. Returns the new state.
CREATE OR REPLACE FUNCTION orchestrator.drain_queue(queue text, reason text DEFAULT NULL)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$ SELECT orchestrator.set_queue_state(queue, 'draining', reason) $$;
