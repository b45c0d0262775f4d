-- WHEN is false for rows that come complete (our own bulk path): a row trigger that fires costs COPY more than
-- half its speed. It is false for rows that move here from another leaf, too.
CREATE OR REPLACE TRIGGER tasks_fill
BEFORE INSERT ON orchestrator.tasks
FOR EACH ROW
WHEN (NEW.aging_us IS NULL)
EXECUTE FUNCTION orchestrator.fill_new_task();
