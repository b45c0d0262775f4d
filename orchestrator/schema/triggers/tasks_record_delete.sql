-- Only manual statements name the root. A worker's DELETE names tasks_live, and its task keeps its key.
CREATE OR REPLACE TRIGGER tasks_record_delete
AFTER DELETE ON orchestrator.tasks
REFERENCING OLD TABLE AS old_tasks
FOR EACH STATEMENT
EXECUTE FUNCTION orchestrator.record_manual_delete();
