-- A write that sets or clears the lease is a worker's. Two of its writes leave the lease alone, and are known
-- by what no hand writes: the start of an attempt sets started_at, the sweep frees only what is due and changes
-- nothing else.
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
        )
    )
)
EXECUTE FUNCTION orchestrator.guard_hands_update();
