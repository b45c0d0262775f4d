-- Only a worker sets or clears the lease, so WHEN lets its writes pass. UPDATE OF: a statement that names none of these
-- columns does not evaluate the condition. The condition is short, and guard_manual_update lets pass the rest:
-- PostgreSQL reads the text of a condition anew in each statement, and the whole of it took a fifth of a claim of one
-- task.
CREATE OR REPLACE TRIGGER tasks_guard
BEFORE UPDATE OF status, priority, run_at ON orchestrator.tasks
FOR EACH ROW
WHEN (OLD.lease IS NOT DISTINCT FROM NEW.lease)
EXECUTE FUNCTION orchestrator.guard_manual_update();
