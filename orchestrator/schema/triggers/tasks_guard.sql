-- Only a worker sets or clears the lease. Three of a worker's writes leave the lease alone; WHEN lets them pass. The
-- start of an attempt sets started_at, which an operator may not set. The sweep changes only the status, and only of
-- due tasks. An unblocked task keeps its place in the order, because it has waited; an operator's statement that
-- unblocks a task does the same.
CREATE OR REPLACE TRIGGER tasks_guard
BEFORE UPDATE ON orchestrator.tasks
FOR EACH ROW
WHEN (
    OLD.lease IS NOT DISTINCT FROM NEW.lease
    AND (
        OLD.status IS DISTINCT FROM NEW.status
        OR OLD.priority IS DISTINCT FROM NEW.priority
        OR OLD.run_at IS DISTINCT FROM NEW.run_at
    )
    AND NOT (
        OLD.priority IS NOT DISTINCT FROM NEW.priority
        AND OLD.run_at IS NOT DISTINCT FROM NEW.run_at
        AND (
            OLD.status = 'claimed' AND NEW.status = 'running' AND OLD.started_at IS DISTINCT FROM NEW.started_at
            OR OLD.status = 'scheduled' AND NEW.status = 'pending' AND OLD.run_at <= orchestrator.clock()
            OR OLD.status = 'blocked' AND NEW.status IN ('pending', 'scheduled')
        )
    )
)
EXECUTE FUNCTION orchestrator.guard_manual_update();
