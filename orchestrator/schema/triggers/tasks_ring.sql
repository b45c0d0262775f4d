-- Only an INSERT that names the root fires this; a worker's move into tasks_done names the leaf.
CREATE OR REPLACE TRIGGER tasks_ring
AFTER INSERT ON orchestrator.tasks
REFERENCING NEW TABLE AS new_tasks
FOR EACH STATEMENT
EXECUTE FUNCTION orchestrator.ring_for_new_tasks();
