-- `make render` writes this file: the triggers.

-- triggers/tasks_fill.sql
-- WHEN is false for complete rows (our own bulk path): a row trigger that fires costs COPY more than half its speed.
-- It is also false for rows that move here from another leaf.
CREATE OR REPLACE TRIGGER tasks_fill
BEFORE INSERT ON orchestrator.tasks
FOR EACH ROW
WHEN (NEW.position IS NULL)
EXECUTE FUNCTION orchestrator.fill_new_task();

-- triggers/tasks_guard.sql
-- Only a worker sets or clears the lease, so WHEN lets its writes pass. UPDATE OF: a statement that names none of these
-- columns does not evaluate the condition. The condition is short, and guard_manual_update lets pass the rest:
-- PostgreSQL reads the text of a condition anew in each statement, and the whole of it took a fifth of a claim of one
-- task.
CREATE OR REPLACE TRIGGER tasks_guard
BEFORE UPDATE OF status, priority, run_at ON orchestrator.tasks
FOR EACH ROW
WHEN (OLD.lease IS NOT DISTINCT FROM NEW.lease)
EXECUTE FUNCTION orchestrator.guard_manual_update();

-- triggers/tasks_place.sql
-- UPDATE OF: a statement that names none of these columns, as no claim does, does not evaluate the condition. Triggers
-- fire by name, so it fires after tasks_guard, which checks the values; what tasks_guard itself changes, it places itself.
CREATE OR REPLACE TRIGGER tasks_place
BEFORE UPDATE OF position, run_at, aging_us, priority, max_attempts ON orchestrator.tasks
FOR EACH ROW
WHEN (
    OLD.position IS DISTINCT FROM NEW.position
    OR OLD.run_at IS DISTINCT FROM NEW.run_at
    OR OLD.aging_us IS DISTINCT FROM NEW.aging_us
    OR OLD.priority IS DISTINCT FROM NEW.priority
    OR OLD.max_attempts IS DISTINCT FROM NEW.max_attempts
)
EXECUTE FUNCTION orchestrator.place_task();
