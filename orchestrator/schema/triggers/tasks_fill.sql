-- WHEN is false for complete rows (our own bulk path): a row trigger that fires costs COPY more than half its speed.
-- It is also false for rows that move here from another leaf.
CREATE OR REPLACE TRIGGER tasks_fill
BEFORE INSERT ON orchestrator.tasks
FOR EACH ROW
WHEN (NEW.position IS NULL)
EXECUTE FUNCTION orchestrator.fill_new_task();
