-- UPDATE OF: a statement that does not name `id`, as no worker's does, does not evaluate the condition.
CREATE OR REPLACE TRIGGER tasks_refuse_id
BEFORE UPDATE OF id ON orchestrator.tasks
FOR EACH ROW
WHEN (OLD.id IS DISTINCT FROM NEW.id)
EXECUTE FUNCTION orchestrator.refuse_new_id();
