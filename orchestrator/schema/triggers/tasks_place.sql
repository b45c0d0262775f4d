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
