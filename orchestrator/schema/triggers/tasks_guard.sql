-- A write that sets or clears the lease is a worker's. Three of its writes leave the lease alone. The start of an attempt
-- sets started_at, which a hand cannot. The sweep frees only what is due and changes nothing else. What was blocked and may
-- run keeps its place in the order: it has waited all along. A hand that unblocks a task gets the same.
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
