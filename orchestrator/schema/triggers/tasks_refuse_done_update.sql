-- On this leaf alone: a longer condition on the root would cost each claim. Triggers fire by name, so it fires after
-- tasks_guard, which checks the values.
CREATE OR REPLACE TRIGGER tasks_refuse_done_update
BEFORE UPDATE ON orchestrator.tasks_done
FOR EACH ROW
WHEN (
    OLD.status = NEW.status
    AND (
        OLD.type IS DISTINCT FROM NEW.type
        OR OLD.payload IS DISTINCT FROM NEW.payload
        -- generated: changed options
        OR OLD.queue IS DISTINCT FROM NEW.queue
        OR OLD.priority IS DISTINCT FROM NEW.priority
        OR OLD.run_at IS DISTINCT FROM NEW.run_at
        OR OLD.idempotency_key IS DISTINCT FROM NEW.idempotency_key
        OR OLD.max_attempts IS DISTINCT FROM NEW.max_attempts
        OR OLD.timeout IS DISTINCT FROM NEW.timeout
        OR OLD.tags IS DISTINCT FROM NEW.tags
        OR OLD.metadata IS DISTINCT FROM NEW.metadata
        OR OLD.trace_context IS DISTINCT FROM NEW.trace_context
        -- end
    )
)
EXECUTE FUNCTION orchestrator.refuse_finished_update();
