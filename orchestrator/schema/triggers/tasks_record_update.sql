-- Only manual statements name the root, so only they are recorded.
CREATE OR REPLACE TRIGGER tasks_record_update
AFTER UPDATE ON orchestrator.tasks
REFERENCING OLD TABLE AS old_tasks NEW TABLE AS new_tasks
FOR EACH STATEMENT
EXECUTE FUNCTION orchestrator.record_manual_update();
